//! Mail as people use it: who they are without saying so, and what they see.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::process::{Output, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Connection, Daemon, GUARD, Shell, daemon, wait_until};

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap().trim_end()
}

fn printed(daemon: &Daemon, arguments: &[&str]) -> Value {
    serde_json::from_str(text(&daemon.trl(arguments))).unwrap()
}

fn with_agents(names: &[&str]) -> Daemon {
    let daemon = daemon!();
    for name in names {
        daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
    }
    daemon
}

/// Sixty-four programs, each in a terminal of its own, all at once.
#[test]
fn claims_of_separate_processes_never_share_a_label() {
    const PROCESSES: usize = 64;
    let daemon = with_agents(&["alice"]);
    let mut readers = Vec::new();
    for _ in 0..PROCESSES {
        // A session leader of its own: what a new terminal is to the kernel.
        let mut command = std::process::Command::new("setsid");
        let client = daemon.client();
        command.arg(client.get_program()).args(client.get_args());
        command.env_clear().envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args(["inbox", "--as", "alice", "--wait", "60"]).env("TRL_LABEL", "desk");
        readers
            .push(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    let mut other = daemon.connect();
    let mut labels = Vec::new();
    wait_until("all of them are there", GUARD, || {
        let agents = other.ok(m::AgentList::NAME, json!({}));
        labels = agents["agents"][0]["live_sessions"].as_array().unwrap().clone();
        labels.len() == PROCESSES
    });
    let mut expected: Vec<Value> = (1..PROCESSES).map(|n| json!(format!("cli:{n}"))).collect();
    expected.push(json!("desk"));
    assert_eq!(labels, expected);
    for mut reader in readers {
        reader.kill().unwrap();
        reader.wait().unwrap();
    }
    wait_until("all of them are gone", GUARD, || {
        other.ok(m::AgentList::NAME, json!({}))["agents"][0]["live_sessions"] == json!([])
    });
}

#[test]
fn inside_a_session_nobody_says_who_they_are() {
    let daemon = with_agents(&["alice", "bob"]);
    let trl = trl_testkit::trl!().display().to_string();
    let mut bob = daemon.connect();
    bob.ok(m::AgentUse::NAME, json!({"agent": "bob"}));

    let mut told =
        daemon.session_with(Shell::Bash, json!({"env": {"TRL_AGENT": "alice", "TRL_LABEL": "reviewer"}}));
    assert_eq!(told.ok(&format!("{trl} agent whoami | cut -d' ' -f1")), "alice/reviewer\n");
    told.ok(&format!("{trl} send bob 'from the session'"));
    let got = bob.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}))["messages"][0].clone();
    assert_eq!((&got["text"], &got["from_session"]), (&json!("from the session"), &json!("reviewer")));
    bob.ok(m::MailReply::NAME, json!({"message_id": got["message_id"], "text": "back"}));
    assert!(told.ok(&format!("{trl} inbox --wait 20")).ends_with("\n    back\n"));

    // Nothing in the environment: said once, and known from then on, here and nowhere else.
    let mut session = daemon.session(Shell::Sh);
    let lost = session.run(&format!("{trl} inbox"));
    assert_eq!(lost.exit_code, Some(64), "{lost:?}");
    assert_eq!(session.ok(&format!("{trl} agent use bob --label desk")), "bob/desk\n");
    assert_eq!(session.ok(&format!("{trl} agent whoami | cut -d' ' -f1")), "bob/desk\n");
    let mut other = daemon.session(Shell::Bash);
    assert_eq!(other.run(&format!("{trl} agent whoami")).exit_code, Some(64));
    let once = other.ok(&format!("{trl} agent whoami --as bob | cut -d' ' -f1"));
    assert!(once.starts_with("bob/cli:"), "{once}");
    assert_eq!(other.run(&format!("{trl} agent whoami")).exit_code, Some(64));
}

#[test]
fn a_bare_wait_waits_and_what_became_of_a_message_is_shown() {
    let daemon = with_agents(&["alice", "bob"]);
    let mut bob = daemon.connect();
    bob.ok(m::AgentUse::NAME, json!({"agent": "bob", "label": "claude:2"}));
    let mut command = daemon.client();
    command.args(["send", "--as", "alice", "bob", "--to-session", "claude:2", "well?", "--wait"]);
    let asking = command.stdout(Stdio::piped()).spawn().unwrap();
    let asked = bob.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}))["messages"][0].clone();
    bob.ok(m::MailReply::NAME, json!({"message_id": asked["message_id"], "text": "well."}));
    assert!(text(&asking.wait_with_output().unwrap()).ends_with("\n    well."));

    let held = printed(&daemon, &["send", "--as", "alice", "bob/nobody", "later", "--json"]);
    let id = held["message_id"].as_str().unwrap();
    wait_until("it is held", GUARD, || {
        printed(&daemon, &["sent", "--as", "alice", id, "--json"])["state"] == "held"
    });
    let shown = daemon.trl(&["sent", "--as", "alice", id]);
    assert!(text(&shown).starts_with("STATE") && text(&shown).contains("\nheld"), "{shown:?}");
    let waiting = daemon.trl(&["inbox", "--as", "bob", "--held"]);
    assert!(text(&waiting).contains(id) && text(&waiting).contains("nobody"), "{waiting:?}");
    assert_eq!(
        printed(&daemon, &["inbox", "--as", "bob", "--dead-letters", "--json"]),
        json!({"dead_letters": []})
    );
    let reset = printed(&daemon, &["contacts", "--as", "alice", "reset", "bob", "--json"]);
    assert_eq!(reset["who"], "bob");
    let again = daemon.trl(&["contacts", "--as", "alice", "reset", "bob"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("a moment ago"), "{again:?}");
}

/// Asked to, a daemon ends once no agent, session or client is there; and not before.
#[test]
fn a_daemon_that_nobody_needs_ends_if_it_was_asked_to() {
    const LIMIT_S: f64 = 0.6;
    let mut daemon =
        Daemon::builder(trl_testkit::trl!()).env("TRL_EXIT_IDLE_SEC", LIMIT_S.to_string()).start();
    let mut alice = daemon.connect();
    alice.ok(m::AgentCreate::NAME, json!({"name": "alice"}));
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    let session = daemon.session(Shell::Sh);
    drop(session);
    let uptime = |line: &mut trl_testkit::Connection| {
        line.ok(m::SystemPing::NAME, json!({}))["uptime_s"].as_f64().unwrap()
    };
    let begun = uptime(&mut alice);
    wait_until("it outlives the limit", GUARD, || uptime(&mut alice) - begun > 2.0 * LIMIT_S);
    let sessions = alice.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().clone();
    for session in sessions {
        alice.ok(m::SessionDestroy::NAME, json!({"session_id": session["session_id"], "force": true}));
    }
    drop(alice);
    assert!(daemon.wait_end().success());
    assert!(daemon.log().contains("this daemon is idle"), "{}", daemon.log());
}

#[test]
fn held_mail_goes_its_way_after_a_restart_without_being_asked() {
    let mut daemon = with_agents(&["alice", "bob"]);
    let mut alice = daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    let mut send = |params: Value| alice.ok(m::MailSend::NAME, params)["message_id"].clone();
    let brief = send(json!({"to": "bob", "text": "soon over", "expires_s": 3.0}));
    let patient = send(json!({"to": "bob/reviewer", "text": "for whoever reviews"}));
    let state = |alice: &mut Connection, id: &Value| {
        alice.ok(m::MailStatus::NAME, json!({"message_id": id}))["state"].clone()
    };
    wait_until("it is held", GUARD, || state(&mut alice, &patient) == "held");
    daemon.restart();
    wait_until("the mail is open", GUARD, || daemon.log().matches("mail is open").count() == 2);
    // Nobody asked: opened by the start alone. Another daemon on this state is refused.
    let lock = daemon.home().join("state/mail/mail.lock");
    assert_eq!(std::fs::read_to_string(lock).unwrap().trim(), daemon.pid().to_string());
    let mut alice = daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    wait_until("what was brief is over", GUARD, || state(&mut alice, &brief) == "failed");
    assert_eq!(state(&mut alice, &patient), "held");
    let mut reviewer = daemon.connect();
    reviewer.ok(m::AgentUse::NAME, json!({"agent": "bob", "label": "reviewer"}));
    let inbox = reviewer.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}));
    assert_eq!(inbox["messages"][0]["text"], "for whoever reviews");
}

#[test]
fn looking_at_mail_takes_none_from_a_live_session() {
    let daemon = with_agents(&["ann", "bob"]);
    let mut ann = daemon.connect();
    ann.ok(m::AgentUse::NAME, json!({"agent": "ann"}));
    let mut bob = daemon.connect();
    bob.ok(m::AgentUse::NAME, json!({"agent": "bob", "harness": "server"}));
    for look in ["--peek", "--peek", "--held", "--dead-letters"] {
        assert!(daemon.trl(&["inbox", look, "--as", "bob"]).status.success());
    }
    let sessions = ann.ok(m::AgentSessions::NAME, json!({"agent": "bob"}))["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    ann.ok(m::MailSend::NAME, json!({"to": "bob", "text": "for the server"}));
    assert_eq!(bob.ok(m::MailInbox::NAME, json!({"wait_s": 10}))["messages"][0]["text"], "for the server");
    // A terminal that is a session stays one.
    assert!(daemon.trl(&["inbox", "--as", "bob"]).status.success());
    assert!(daemon.trl(&["inbox", "--peek", "--as", "bob"]).status.success());
    let sessions = ann.ok(m::AgentSessions::NAME, json!({"agent": "bob"}))["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
}

#[test]
fn before_there_is_an_agent_people_are_told_how_to_make_one() {
    let daemon = daemon!();
    for arguments in [&["inbox"][..], &["send", "bob", "hello"], &["contacts"]] {
        let told = daemon.trl(arguments);
        let words = String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && words.contains("no agent here yet"), "{told:?}");
        assert!(words.contains("trl agent create NAME"), "{told:?}");
    }
}
