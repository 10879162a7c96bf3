//! What the token of a grant opens, and what it does not: each rule by itself, as a client with nothing but HTTP sees it.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::path::PathBuf;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_protocol::METHODS;
use trl_testkit::{Builder, Daemon, GUARD, Http, WebSocket, every, process, trl, wait_until};

/// A daemon that serves HTTP and has the agents alice and bob.
pub(crate) struct Granter {
    pub(crate) daemon: Daemon,
}

impl Granter {
    pub(crate) fn start() -> Granter {
        Granter::of(Daemon::builder(trl!()).http())
    }

    pub(crate) fn of(builder: Builder) -> Granter {
        let daemon = builder.start();
        for name in ["alice", "bob"] {
            daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
        }
        Granter { daemon }
    }

    /// Grants alice access in bob's name. Returns the grant's id and a client with its token.
    pub(crate) fn grant(&self, mut params: Value) -> (String, Http) {
        let base = json!({"agent": "alice", "from": "bob"});
        params.as_object_mut().unwrap().extend(base.as_object().unwrap().clone());
        let granted = self.daemon.connect().ok(m::RuntimeGrant::NAME, params);
        let id = granted["grant_id"].as_str().unwrap().to_owned();
        let token = self.arrived(&id)["token"].as_str().unwrap().to_owned();
        (id, Http { token, ..self.daemon.http() })
    }

    /// What the daemon of the grantee, which is the same one, has written down.
    pub(crate) fn arrived(&self, id: &str) -> Value {
        let mut found = None;
        wait_until("the grant arrives by mail", GUARD, || {
            found =
                granted_files(&self.daemon).into_iter().map(|(_, read)| read).find(|it| it["grant_id"] == id);
            found.is_some()
        });
        found.unwrap()
    }

    /// The address of bob, who grants.
    pub(crate) fn granter_address(&self) -> String {
        let agents = self.daemon.connect().ok(m::AgentList::NAME, json!({}))["agents"].clone();
        let bob = agents.as_array().unwrap().iter().find(|agent| agent["agent"] == "bob").unwrap();
        bob["address"].as_str().unwrap().to_owned()
    }

    pub(crate) fn revoke(&self, id: &str) -> Value {
        self.daemon.connect().ok(m::RuntimeRevoke::NAME, json!({ "grant_id": id }))
    }
}

pub(crate) fn granted_files(daemon: &Daemon) -> Vec<(PathBuf, Value)> {
    let scopes = std::fs::read_dir(daemon.home().join("state")).into_iter().flatten().flatten();
    let dirs = scopes.map(|scope| scope.path().join("runtimes"));
    let files =
        dirs.filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten().map(|entry| entry.path());
    let read = |path: PathBuf| {
        let text = std::fs::read(&path).ok()?;
        Some((path, serde_json::from_slice(&text).ok()?))
    };
    files.filter_map(read).collect()
}

/// Refused by the grant: who refused is told.
#[track_caller]
fn refused(answer: &Value, word: &str) {
    let error = &answer["error"];
    assert_eq!(error["code"], "AUTH_FAILED", "{answer}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("bob") && message.contains("g-") && message.contains(word), "{word}: {message}");
    assert!(error["details"]["granted_by"].is_string(), "{answer}");
}

/// What a grant allows of each method. `Own` is about a session, and only of the grant's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Allowed,
    Own,
    Refused,
}
use Rule::{Allowed, Own, Refused};

/// Written by hand, apart from the code that it checks: a new method fails here until somebody has decided.
fn table(session: &str, exec: &str) -> Vec<(&'static str, Value, Rule)> {
    let with = |base: Value, more: Value| {
        let mut params = base;
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let of = |more: Value| with(json!({ "session_id": session }), more);
    let of_exec = |more: Value| with(json!({ "exec_id": exec }), more);
    let mut rows = vec![
        (m::SessionList::NAME, json!({}), Allowed),
        (m::SessionCreate::NAME, json!({"shell": "no-such-shell"}), Allowed),
        (m::SessionInfo::NAME, of(json!({})), Own),
        (m::SessionRename::NAME, of(json!({"name": "other"})), Own),
        (m::SessionBind::NAME, of(json!({})), Own),
        (m::SessionFork::NAME, of(json!({})), Own),
        (m::SessionAttach::NAME, of(json!({})), Own),
        (m::SessionInput::NAME, of(json!({"data": "x"})), Own),
        (m::SessionResize::NAME, of(json!({"rows": 20, "cols": 80})), Own),
        (m::ExecRun::NAME, of(json!({"command": "true"})), Own),
        (m::ExecStream::NAME, of(json!({"command": "true"})), Own),
        (m::ExecStart::NAME, of(json!({"command": "true"})), Own),
        (m::ExecAttach::NAME, of_exec(json!({})), Own),
        (m::ExecOutput::NAME, of_exec(json!({"stream": "stdout"})), Own),
        (m::ExecWrite::NAME, of_exec(json!({"data": "x"})), Own),
        (m::ExecResize::NAME, of_exec(json!({"rows": 20, "cols": 80})), Own),
        (m::ExecScreen::NAME, of_exec(json!({})), Own),
        (m::ExecScreen::NAME, of(json!({})), Own),
        (m::ExecCancel::NAME, of_exec(json!({})), Own),
        (m::ExecCancel::NAME, of(json!({})), Own),
        (m::ExecBind::NAME, of_exec(json!({})), Own),
        (m::ExecWait::NAME, of_exec(json!({"timeout_s": 0.1})), Own),
        (m::ExecList::NAME, json!({}), Allowed),
        (m::ExecList::NAME, of(json!({})), Own),
        (m::ExecInfo::NAME, of_exec(json!({})), Own),
        (m::FileRead::NAME, of(json!({"path": "x"})), Own),
        (m::FileWrite::NAME, of(json!({"path": "x", "content": ""})), Own),
        (m::FileEdit::NAME, of(json!({"path": "x", "old": "a", "new": "b"})), Own),
        (m::FileList::NAME, of(json!({})), Own),
        (m::FileStat::NAME, of(json!({"path": "x"})), Own),
        (m::FileMove::NAME, of(json!({"from": "x", "to": "y"})), Own),
        (m::FileRemove::NAME, of(json!({"path": "x"})), Own),
        (m::FileMakeDir::NAME, of(json!({"path": "x"})), Own),
        (m::SessionRestart::NAME, of(json!({})), Own),
        (m::SessionDestroy::NAME, of(json!({})), Own),
        (m::SystemPing::NAME, json!({}), Allowed),
        (m::SystemInfo::NAME, json!({}), Allowed),
        (m::SystemRuntimes::NAME, json!({}), Allowed),
        (m::EventsSubscribe::NAME, json!({}), Allowed),
        (m::SystemStats::NAME, json!({}), Refused),
        (m::MailSubscribe::NAME, json!({}), Refused),
    ];
    // Nothing about mail, and nothing that needs the scope admin.
    let read = |name: &'static str| {
        name.starts_with("agent.") || name.starts_with("mail.") || name.starts_with("contact.")
    };
    let params = json!({"agent": "alice", "name": "x", "to": "alice", "text": "x", "message_id": "none",
        "who": "alice", "timeout_s": 0, "status": true, "grant_id": "g-0"});
    for method in METHODS.iter().map(|method| method.name) {
        let is_admin = matches!(
            method,
            m::SystemShutdown::NAME | m::RuntimeGrant::NAME | m::RuntimeRevoke::NAME | m::RuntimeGrants::NAME
        );
        if (read(method) && method != m::MailSubscribe::NAME) || is_admin {
            rows.push((method, known_params(method, &params), Refused));
        }
    }
    rows
}

/// Those of these params that the method has.
fn known_params(method: &str, all: &Value) -> Value {
    let info = METHODS.iter().find(|info| info.name == method).unwrap();
    let schema = serde_json::to_value((info.params_schema)()).unwrap();
    let needed: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap_or_default();
    needed
        .into_iter()
        .map(|name| (name.clone(), all[&name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn only_sessions_of_the_grant_exist_for_its_holder() {
    let granter = Granter::start();
    let mut owner = granter.daemon.connect();
    owner.ok(m::SessionCreate::NAME, json!({"name": "private", "shell": "bash"}));
    let exec =
        owner.ok(m::ExecRun::NAME, json!({"session_id": "private", "command": "echo secret"}))["exec_id"]
            .clone();
    let private = owner.ok(m::SessionInfo::NAME, json!({"session_id": "private"}))["session_id"].clone();
    let (_, http) = granter.grant(json!({}));
    let mut socket = WebSocket::open(&http);
    let rows = table(private.as_str().unwrap(), exec.as_str().unwrap());
    let missing: Vec<_> =
        METHODS.iter().map(|m| m.name).filter(|m| !rows.iter().any(|(name, ..)| name == m)).collect();
    assert!(missing.is_empty(), "decide what a grant allows of these, and add rows: {missing:?}");
    let endless = [m::SessionAttach::NAME, m::MailSubscribe::NAME];
    // A subscription has no answer until it ends; it has a test of its own.
    every(
        rows.into_iter().filter(|(method, ..)| *method != m::EventsSubscribe::NAME),
        |(method, params, rule)| {
            let answer = socket.call(method, params.clone());
            let code = &answer["error"]["code"];
            if !matches!(rule, Allowed) {
                let body = json!({"id": 1, "method": method, "params": params}).to_string();
                let events = [("Accept", "text/event-stream")];
                let as_events = http.ask("POST", "/v1/rpc", &events, body.as_bytes()).json();
                assert_eq!(&as_events["error"]["code"], code, "{method} with events: {as_events}");
            }
            match rule {
                Allowed => assert_ne!(code, "AUTH_FAILED", "{method}: {answer}"),
                Own => {
                    assert!(code == "SESSION_NOT_FOUND" || code == "EXEC_NOT_FOUND", "{method}: {answer}");
                    assert!(answer.to_string().contains("g-"), "{answer}");
                }
                Refused => {
                    assert_eq!(code, "AUTH_FAILED", "{method}: {answer}");
                    if !endless.contains(method) {
                        assert_eq!(http.call(method, params.clone()).status, 403, "{method}");
                    }
                }
            }
        },
    );
    // By name as by id, and what is not there is no different from what is somebody else's.
    let by_name = http.call(m::SessionInfo::NAME, json!({"session_id": "private"})).json();
    let nobodys = http.call(m::SessionInfo::NAME, json!({"session_id": "nothing"})).json();
    assert_eq!(by_name.to_string().replace("private", "nothing"), nobodys.to_string());
    let taken = http.call(m::SessionCreate::NAME, json!({"name": "private", "shell": "bash"})).json();
    assert_eq!(taken["error"]["code"], "NAME_TAKEN");
    assert!(!taken.to_string().contains(private.as_str().unwrap()), "{taken}");
    assert_eq!(http.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    assert_eq!(http.ok(m::ExecList::NAME, json!({}))["execs"], json!([]));
    let runtimes = http.ok(m::SystemRuntimes::NAME, json!({}))["runtimes"].clone();
    assert_eq!((runtimes.as_array().unwrap().len(), &runtimes[0]["name"]), (1, &json!("local")));
    assert_eq!(runtimes[0]["isolation"], json!(["workspace", "strict"]));
    assert_eq!(runtimes[0]["sessions"], 0);
    for (path, verb) in [("/metrics", "GET"), ("/mcp", "POST")] {
        assert_eq!(http.ask(verb, path, &[], b"{}").status, 403, "{path}");
    }
    assert_eq!(
        owner.ok(m::ExecRun::NAME, json!({"session_id": "private", "command": "echo here"}))["stdout"],
        "here\n"
    );
}

#[test]
fn a_holder_works_in_its_own_sessions_as_anybody_does() {
    let granter = Granter::start();
    let (id, http) = granter.grant(json!({"limits": {"open_files": 256}, "max_sessions": 1}));
    let made = http.ok(m::SessionCreate::NAME, json!({"name": "mine", "shell": "bash"}));
    let session = made["session_id"].clone();
    assert_eq!(
        http.ok(m::ExecRun::NAME, json!({"session_id": "mine", "command": "x=1; pwd"}))["stdout"],
        "/tmp\n"
    );
    let ran = http.ok(m::ExecRun::NAME, json!({"session_id": "mine", "command": "echo $x"}));
    assert_eq!(ran["stdout"], "1\n", "its state is kept");
    assert_eq!(http.ok(m::ExecInfo::NAME, json!({"exec_id": ran["exec_id"]}))["exit_code"], 0);
    http.ok(m::FileWrite::NAME, json!({"session_id": session, "path": "f", "content": "text"}));
    assert_eq!(http.ok(m::FileRead::NAME, json!({"session_id": "mine", "path": "f"}))["text"], "text");
    let listed = http.ok(m::SessionList::NAME, json!({}))["sessions"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["session_id"]), (1, &session));
    assert_eq!(listed[0]["isolation"]["requested"]["profile"], "workspace");
    assert_eq!(listed[0]["limits"]["open_files"], 256);
    // One is the most at a time, also for a session that lives for one command.
    let full = http.call(m::SessionCreate::NAME, json!({"shell": "bash"})).json();
    assert_eq!(full["error"]["code"], "MAX_SESSIONS_REACHED", "{full}");
    assert!(full["error"]["message"].as_str().unwrap().contains("bob"), "{full}");
    assert_eq!(
        http.call(m::ExecRun::NAME, json!({"command": "true"})).json()["error"]["code"],
        "MAX_SESSIONS_REACHED"
    );
    let rows = granter.daemon.connect().ok(m::RuntimeGrants::NAME, json!({}))["grants"].clone();
    assert_eq!((&rows[0]["grant_id"], &rows[0]["sessions"][0]), (&json!(id), &session));
    assert_eq!((&rows[0]["agent"], &rows[0]["state"]), (&json!("alice"), &json!("active")));
    assert!(!rows.to_string().contains(&http.token));
    http.ok(m::SessionDestroy::NAME, json!({"session_id": "mine"}));
    assert_eq!(
        http.call(m::SessionInfo::NAME, json!({"session_id": session})).json()["error"]["code"],
        "SESSION_TERMINATED"
    );
    assert_eq!(
        http.ok(m::ExecRun::NAME, json!({"command": "pwd"}))["stdout"],
        "/tmp\n",
        "isolated without a session, too"
    );
}

#[test]
fn what_is_asked_beyond_the_grant_is_refused_with_its_terms() {
    let granter = Granter::of(Daemon::builder(trl!()).http().env("SECRET_OF_THE_OWNER", "hidden"));
    let secret = granter.daemon.user_home().join("secret");
    std::fs::write(&secret, "hidden").unwrap();
    let (_, http) = granter.grant(json!({"limits": {"open_files": 256}}));
    for (params, word) in [
        (json!({"isolation": "none"}), "\"workspace\" or more"),
        (json!({"isolation": {"profile": "workspace", "read": ["/home"]}}), "read"),
        (json!({"isolation": {"profile": "workspace", "net": "full"}}), "net"),
        (json!({"limits": {"open_files": 257}}), "open_files"),
        (json!({"working_dir": granter.daemon.work()}), "directory"),
        (json!({"runtime": "container:debian"}), "container:debian"),
        (json!({"runtime": "any"}), "any"),
    ] {
        let answer = http.call(m::SessionCreate::NAME, params.clone());
        assert_eq!(answer.status, 403, "{params}: {}", answer.text());
        refused(&answer.json(), word);
    }
    http.ok(
        m::SessionCreate::NAME,
        json!({"name": "s", "shell": "bash", "isolation": "strict", "env": {"OWN": "1"}}),
    );
    let run = |command: &str| {
        http.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}))["stdout"].clone()
    };
    assert_eq!(run("echo ${SECRET_OF_THE_OWNER-gone} $OWN"), "gone 1\n");
    assert_eq!(run(&format!("cat {} 2>&1 | grep -c hidden", secret.display())), "0\n");
    assert_eq!(http.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["limits"]["open_files"], 256);
    let alone = json!({"command": "echo ${SECRET_OF_THE_OWNER-gone}"});
    assert_eq!(http.ok(m::ExecRun::NAME, alone)["stdout"], "gone\n", "also for one command");
    // A port of the machine's network is none of the session's.
    let started = http.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": "sleep 100"}));
    let until = json!({"port": {"port": http.address.port()}});
    let wait = json!({"exec_id": started["exec_id"], "timeout_s": 0.3, "until": until});
    assert_eq!(http.call(m::ExecWait::NAME, wait).json()["error"]["code"], "WAIT_TIMEOUT");
}

#[test]
fn events_are_of_the_grants_own_sessions_and_end_with_it() {
    let granter = Granter::start();
    let (id, http) = granter.grant(json!({"profile": "none"}));
    let from = json!({"topics": ["session", "exec", "agent", "mail"]});
    let mut socket = WebSocket::open(&http);
    socket.send(&json!({"id": 7, "method": m::EventsSubscribe::NAME, "params": from}).to_string());
    assert_eq!(socket.next_message().unwrap()["event"], "subscribed");
    let mut owner = granter.daemon.connect();
    owner.ok(m::SessionCreate::NAME, json!({"name": "private", "shell": "bash"}));
    owner.ok(m::AgentCreate::NAME, json!({"name": "carol"}));
    let mine = http.ok(m::SessionCreate::NAME, json!({"shell": "bash"}))["session_id"].clone();
    let first = socket.next_message().unwrap();
    assert_eq!(
        (&first["data"]["change"], &first["data"]["session_id"]),
        (&json!("created"), &mine),
        "{first}"
    );
    granter.revoke(&id);
    let last = loop {
        let message = socket.next_message().unwrap();
        match message["event"].is_string() {
            true => assert_eq!(message["data"]["session_id"], mine, "{message}"),
            false => break message,
        }
    };
    refused(&last, "revoked");
}

#[test]
fn a_revoked_grant_ends_with_its_sessions_also_for_the_next_daemon() {
    let mut granter = Granter::start();
    let (id, http) = granter.grant(json!({}));
    let (other, others) = granter.grant(json!({}));
    let made = http.ok(m::SessionCreate::NAME, json!({"name": "mine", "shell": "bash"}));
    let kept = others.ok(m::SessionCreate::NAME, json!({"name": "kept", "shell": "bash"}));
    assert_eq!(
        others.call(m::SessionInfo::NAME, json!({"session_id": made["session_id"]})).status,
        404,
        "another grant"
    );
    let mut socket = WebSocket::open(&http);
    assert_eq!(socket.call(m::SessionList::NAME, json!({}))["ok"], true);
    // The next daemon knows whose sessions it adopts.
    granter.daemon.restart();
    let http = Http { token: http.token, ..granter.daemon.http() };
    assert_eq!(http.ok(m::SessionList::NAME, json!({}))["sessions"][0]["session_id"], made["session_id"]);
    let mut socket = WebSocket::open(&http);
    let pid = i32::try_from(
        http.ok(m::SessionInfo::NAME, json!({"session_id": "mine"}))["host_pid"].as_i64().unwrap(),
    )
    .unwrap();
    let revoked = granter.revoke(&id);
    assert_eq!(revoked["sessions"], json!([made["session_id"]]));
    assert!(process::ended_within(pid, GUARD), "its host is gone");
    let sessions = granter.daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].clone();
    assert_eq!((sessions.as_array().unwrap().len(), &sessions[0]["session_id"]), (1, &kept["session_id"]));
    let answer = http.call(m::SessionList::NAME, json!({}));
    assert_eq!(answer.status, 401);
    refused(&answer.json(), "revoked");
    // A connection that was open before is refused as well.
    refused(&socket.call(m::SessionCreate::NAME, json!({})), "revoked");
    granter.daemon.restart();
    let http = Http { token: http.token, ..granter.daemon.http() };
    refused(&http.call(m::SessionList::NAME, json!({})).json(), "revoked");
    granter.revoke(&other);
    let unknown = granter.daemon.connect().fails(
        m::RuntimeRevoke::NAME,
        json!({"grant_id": "g-none"}),
        "INVALID_PARAMS",
    );
    assert!(unknown.contains("g-none"), "{unknown}");
}

#[test]
fn an_expired_grant_ends_by_itself() {
    let granter = Granter::start();
    let (id, http) = granter.grant(json!({"profile": "none", "expires_s": 3.0}));
    let made = http.ok(m::SessionCreate::NAME, json!({"shell": "bash"}));
    let pid = i32::try_from(
        http.ok(m::SessionInfo::NAME, json!({"session_id": made["session_id"]}))["host_pid"]
            .as_i64()
            .unwrap(),
    )
    .unwrap();
    assert!(process::ended_within(pid, GUARD), "its session ends with it");
    let answer = http.call(m::SessionList::NAME, json!({}));
    assert_eq!(answer.status, 401);
    refused(&answer.json(), "expired");
    wait_until("the grantee's file is gone", GUARD, || granted_files(&granter.daemon).is_empty());
    let rows = granter.daemon.connect().ok(m::RuntimeGrants::NAME, json!({}))["grants"].clone();
    assert_eq!((&rows[0]["grant_id"], &rows[0]["state"]), (&json!(id), &json!("expired")));
}

#[test]
fn a_grant_needs_a_contact_and_a_way_to_this_daemon() {
    let deaf = Granter::of(Daemon::builder(trl!()));
    let mut owner = deaf.daemon.connect();
    let message = owner.fails(m::RuntimeGrant::NAME, json!({"agent": "alice"}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("announce") && message.contains("http"), "{message}");
    for (params, code) in [
        (json!({"agent": "alicia"}), "AGENT_NOT_FOUND"),
        (json!({"agent": "alice", "from": "bobby"}), "AGENT_NOT_FOUND"),
        (json!({"agent": "alice", "expires_s": 0}), "INVALID_PARAMS"),
        (json!({"agent": "alice", "expires_s": -1}), "INVALID_PARAMS"),
        (json!({"agent": "alice", "max_sessions": 0}), "INVALID_PARAMS"),
        (json!({"agent": "alice", "working_dir": "no/such"}), "INVALID_PARAMS"),
        (json!({"agent": "alice", "limits": {"pids": 1}}), "INVALID_PARAMS"),
        (json!({"agent": "alice", "profile": "tight"}), "INVALID_PARAMS"),
    ] {
        owner.fails(m::RuntimeGrant::NAME, params, code);
    }
    let mut alice = deaf.daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "bob"}));
    alice.ok(m::ContactBlock::NAME, json!({"who": "alice"}));
    owner.fails(m::RuntimeGrant::NAME, json!({"agent": "alice", "from": "bob"}), "CONTACT_REQUIRED");
    assert_eq!(
        owner.ok(m::RuntimeGrants::NAME, json!({}))["grants"],
        json!([]),
        "nothing is left of what was refused"
    );
}
