//! Sessions on another daemon, with two real daemons and the network between them.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Builder, Connection, Daemon, GUARD, Proxy, numbers, own_port, process, wait_until};

/// A daemon with HTTP at a port that it keeps when it is started again.
pub(super) fn far_daemon(change: impl FnOnce(Builder) -> Builder) -> (Daemon, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], own_port()));
    let builder = Daemon::builder(trl_testkit::trl!()).arg("--http").arg(address.to_string());
    (change(builder.env("TRL_AUTH_TOKEN", TOKEN)).start(), address)
}

pub(super) const TOKEN: &str = "a-token-for-the-other-daemon-0123";

pub(super) fn write_private(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A daemon here that knows the other as the runtime `far`, with further settings of that runtime.
pub(super) fn near_daemon(url: &str, more: &str) -> Daemon {
    let daemon = Daemon::builder(trl_testkit::trl!()).prepare();
    let token = daemon.home().join("config/far-token");
    write_private(&token, TOKEN);
    let config = format!(
        "[runtimes.far]\nkind = \"trl\"\nurl = \"{url}\"\ntoken_file = \"{}\"\n{more}",
        token.display()
    );
    std::fs::write(daemon.home().join("config/config.toml"), config).unwrap();
    daemon.started()
}

/// Where a daemon keeps what it knows: a directory of its own for each socket.
pub(super) fn state_dir(daemon: &Daemon) -> std::path::PathBuf {
    let mut entries = std::fs::read_dir(daemon.home().join("state")).unwrap().flatten();
    let is_own = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("at-");
    entries.find(is_own).unwrap().path()
}

/// The near one is dropped first: it ends its sessions on the other.
pub(super) struct Pair {
    pub(super) near: Daemon,
    pub(super) proxy: Proxy,
    pub(super) far: Daemon,
}

/// Two daemons and a network that can be cut.
pub(super) fn pair() -> Pair {
    let (far, address) = far_daemon(|builder| builder);
    let proxy = Proxy::to(address);
    let near = near_daemon(&format!("http://{}", proxy.address()), "labels = [\"big\"]\nmax_sessions = 8\n");
    Pair { far, proxy, near }
}

#[track_caller]
pub(super) fn create(connection: &mut Connection, name: &str) -> String {
    let created =
        connection.ok(m::SessionCreate::NAME, json!({"name": name, "shell": "bash", "runtime": "far"}));
    assert_eq!((&created["name"], &created["runtime"]), (&json!(name), &json!("far")), "{created}");
    created["session_id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(super) fn prints(connection: &mut Connection, session: &str, command: &str, expected: &str) {
    let ran = connection.ok(m::ExecRun::NAME, json!({"session_id": session, "command": command}));
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!(expected), &json!(0)), "{command}: {ran}");
}

fn far_runtime(connection: &mut Connection, name: &str) -> Value {
    let found = connection.ok(m::SystemRuntimes::NAME, json!({}));
    let all = found["runtimes"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["name"] == name).unwrap_or_default()
}

#[test]
fn every_request_is_done_by_the_other_daemon() {
    let Pair { far, proxy: _proxy, near } = pair();
    let mut here = near.connect();
    let mut changes = near.connect();
    let subscribed = changes.begin(m::EventsSubscribe::NAME, json!({"topics": ["session", "exec"]}));
    assert_eq!(changes.event(subscribed).name, "subscribed");
    let id = create(&mut here, "s");
    here.ok(m::SessionCreate::NAME, json!({"name": "mine"}));
    here.fails(m::SessionCreate::NAME, json!({"name": "s"}), "NAME_TAKEN");
    here.fails(m::SessionCreate::NAME, json!({"name": "mine", "runtime": "far"}), "NAME_TAKEN");

    // One list; the name is ours, and the other daemon has the session under a name of its own.
    let listed = here.ok(m::SessionList::NAME, json!({}))["sessions"].clone();
    let rows: Vec<_> =
        listed.as_array().unwrap().iter().map(|it| (it["name"].clone(), it["runtime"].clone())).collect();
    assert_eq!(rows, [(json!("s"), json!("far")), (json!("mine"), json!("local"))]);
    let there = far.connect().ok(m::SessionInfo::NAME, json!({"session_id": id}));
    assert!(there["name"].as_str().is_some_and(|name| name.starts_with("s.")), "{there}");

    prints(&mut here, "s", "cd /; x='a  b'; greet() { echo \"hello $1\"; }", "");
    prints(&mut here, &id, "pwd; echo \"$x\"; greet you", "/\na  b\nhello you\n");
    let info = here.ok(m::SessionInfo::NAME, json!({"session_id": "s"}));
    let facts = (&info["name"], &info["working_dir"], &info["command_count"], &info["runtime"]);
    assert_eq!(facts, (&json!("s"), &json!("/"), &json!(2), &json!("far")), "{info}");
    let failed = here.begin(m::ExecStream::NAME, json!({"session_id": "s", "command": "printf 'ä\\377'; exit_with() { return 3; }; exit_with", "check": true}));
    let failed = here.finish(failed);
    assert_eq!(failed.failed("COMMAND_FAILED")["details"]["exit_code"], 3);
    assert_eq!(String::from_utf8_lossy(&failed.output("stdout")), "ä\u{fffd}");

    let command = "echo one; read line; echo got $line";
    let exec = here.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": command}))["exec_id"].clone();
    let attached = here.begin(m::ExecAttach::NAME, json!({"exec_id": exec}));
    here.events_until(attached, "stdout", "one");
    let matched = here.ok(
        m::ExecWait::NAME,
        json!({"exec_id": exec, "until": {"log": {"pattern": "one"}}, "timeout_s": 20}),
    );
    assert_eq!(matched["state"], "running", "{matched}");
    here.ok(m::ExecWrite::NAME, json!({"exec_id": exec, "data": "this\n"}));
    assert_eq!(here.finish(attached).data()["exit_code"], 0);
    let output = here.ok(m::ExecOutput::NAME, json!({"exec_id": exec, "stream": "stdout", "offset": 4}));
    assert_eq!(output["text"], "got this\n");
    assert_eq!(here.ok(m::ExecInfo::NAME, json!({"exec_id": exec}))["exit_code"], 0);
    assert_eq!(here.ok(m::ExecList::NAME, json!({"session_id": "s"}))["execs"].as_array().unwrap().len(), 4);
    assert!(here.ok("exec.list", json!({}))["execs"].to_string().contains(exec.as_str().unwrap()));

    let slow = here.begin(m::ExecRun::NAME, json!({"session_id": "s", "command": "sleep 1000"}));
    wait_until("it runs", GUARD, || {
        near.connect().ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["state"] == "running"
    });
    assert_eq!(near.connect().ok(m::ExecCancel::NAME, json!({"session_id": "s"}))["cancelled"], true);
    assert_eq!(here.finish(slow).data()["cancelled"], true);

    // Its changes are told here, under its name here.
    let told = |line: &Value| (line["change"].clone(), line["name"].clone(), line["exec_id"].clone());
    let mut seen = Vec::new();
    while !seen.iter().any(|(change, _, exec_id)| *change == "finished" && *exec_id == exec) {
        seen.push(told(&changes.event(subscribed).data));
    }
    assert!(seen.contains(&(json!("created"), json!("s"), Value::Null)), "{seen:?}");

    let forked = here.ok(m::SessionFork::NAME, json!({"session_id": "s", "name": "fork"}));
    assert_eq!((&forked["name"], &forked["runtime"]), (&json!("fork"), &json!("far")), "{forked}");
    prints(&mut here, "fork", "pwd; echo \"$x\"; greet fork; x=other", "/\na  b\nhello fork\n");
    prints(&mut here, "s", "echo \"$x\"", "a  b\n");
    here.fails(m::SessionFork::NAME, json!({"session_id": "s", "name": "mine"}), "NAME_TAKEN");
    here.ok(m::SessionDestroy::NAME, json!({"session_id": "fork"}));

    here.ok(m::SessionRename::NAME, json!({"session_id": "s", "name": "renamed"}));
    here.fails(m::SessionInfo::NAME, json!({"session_id": "s"}), "SESSION_NOT_FOUND");
    here.ok(m::SessionRestart::NAME, json!({"session_id": "renamed"}));
    prints(&mut here, "renamed", "greet again", "hello again\n");
    here.ok(m::SessionDestroy::NAME, json!({"session_id": "renamed"}));
    here.fails(m::ExecRun::NAME, json!({"session_id": id, "command": "true"}), "SESSION_TERMINATED");
    far.connect().fails(m::SessionInfo::NAME, json!({"session_id": id}), "SESSION_TERMINATED");
}

#[test]
fn files_terminals_and_people_are_those_of_the_other_daemon() {
    let Pair { far, proxy: _proxy, near } = pair();
    let mut here = near.connect();
    create(&mut here, "s");
    let file = |path: &str| json!({"session_id": "s", "path": path});
    let mut content = file("new/a.txt");
    (content["content"], content["make_parents"]) = (json!("one two"), json!(true));
    here.ok(m::FileWrite::NAME, content);
    assert_eq!(std::fs::read_to_string(far.work().join("new/a.txt")).unwrap(), "one two");
    here.ok(m::FileEdit::NAME, json!({"session_id": "s", "path": "new/a.txt", "old": "two", "new": "three"}));
    assert_eq!(here.ok(m::FileRead::NAME, file("new/a.txt"))["text"], "one three");
    assert_eq!(here.ok(m::FileStat::NAME, file("new/a.txt"))["bytes"], 9);
    here.ok(m::FileMakeDir::NAME, file("dir"));
    here.ok(m::FileMove::NAME, json!({"session_id": "s", "from": "new/a.txt", "to": "dir/b"}));
    assert_eq!(here.ok(m::FileList::NAME, file("dir"))["entries"].as_array().unwrap().len(), 1);
    here.ok(m::FileRemove::NAME, json!({"session_id": "s", "path": "dir", "recursive": true}));
    here.fails(m::FileRead::NAME, file("dir/b"), "FILE_NOT_FOUND");

    let seen = here.begin(m::SessionAttach::NAME, json!({"session_id": "s", "rows": 24, "cols": 80}));
    // The screen comes first: from then on somebody is attached.
    here.event(seen);
    let mut keys = near.connect();
    keys.ok(m::SessionResize::NAME, json!({"session_id": "s", "rows": 30, "cols": 90}));
    keys.ok(m::SessionInput::NAME, json!({"session_id": "s", "data": "echo $((6*7))\r"}));
    here.events_until(seen, "stdout", "42");
    let params = json!({"session_id": "s", "command": "printf 'a line'; sleep 1000", "tty": true});
    let on_screen = keys.begin(m::ExecStream::NAME, params);
    keys.events_until(on_screen, "stdout", "a line");
    let mut other = near.connect();
    let screen = other.ok(m::ExecScreen::NAME, json!({"session_id": "s"}));
    assert!(screen["lines"].to_string().contains("a line"), "{screen}");
    other.ok(m::ExecCancel::NAME, json!({"session_id": "s"}));
    assert_eq!(keys.finish(on_screen).data()["cancelled"], true);

    let local = near.work().join("up");
    std::fs::write(&local, numbers::text(0, 3_000_000)).unwrap();
    let copied = near.trl(&["cp", "up", "s:up"]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(std::fs::read(far.work().join("up")).unwrap() == numbers::text(0, 3_000_000));
    let shown = near.trl(&["run", "--on", "far", "echo $TRL_SESSION_NAME; pwd"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(
        text.starts_with("on-far.") && text.ends_with(&format!("{}\n", far.work().display())),
        "{shown:?}"
    );
}

#[test]
fn cut_connections_lose_and_repeat_nothing() {
    let Pair { far: _far, proxy, near } = pair();
    let mut here = near.connect();
    create(&mut here, "s");
    let numbers = "for i in $(seq 20000); do echo $i; [ $((i % 5000)) = 0 ] && sleep 0.1; done";
    let expected: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    let stream = here.begin(m::ExecStream::NAME, json!({"session_id": "s", "command": numbers}));
    let mut heard = Vec::new();
    for part in ["5000\n", "10000\n", "15000\n"] {
        let events = here.events_until(stream, "stdout", part);
        heard.extend(events);
        proxy.cut();
        proxy.heal();
    }
    let mut answer = here.finish(stream);
    heard.append(&mut answer.events);
    answer.events = heard;
    assert_eq!(answer.data()["exit_code"], 0);
    assert!(answer.output("stdout") == expected.as_bytes(), "every byte, once");

    // A command whose answer cannot get through is not run again.
    let run = here.begin(m::ExecRun::NAME, json!({"session_id": "s", "command": "echo ran >> ran; read -t 1 x < /dev/tty; sleep 0.5; echo done"}));
    wait_until("it runs", GUARD, || {
        near.connect().ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["state"] == "running"
    });
    proxy.cut();
    let listed = near.connect().ok(m::SessionList::NAME, json!({}));
    assert_eq!(listed["sessions"][0]["name"], "s", "{listed}");
    proxy.heal();
    assert_eq!(here.finish(run).ran().stdout, "done\n");
    prints(&mut here, "s", "cat ran", "ran\n");
}

#[test]
fn a_killed_daemon_on_either_side_loses_nothing() {
    let Pair { mut far, proxy: _proxy, mut near } = pair();
    let mut here = near.connect();
    create(&mut here, "s");
    prints(&mut here, "s", "x=kept", "");
    let command = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo end $x";
    let stream = here.begin(m::ExecStream::NAME, json!({"session_id": "s", "command": command}));
    let events = here.events_until(stream, "stdout", "begun");
    let exec_id = events[0].data["exec_id"].clone();
    far.restart();
    near.kill9();
    near.restart();
    let mut here = near.connect();
    // The daemon here knows the session at once, by its name.
    let listed = here.ok(m::SessionList::NAME, json!({}));
    let row = &listed["sessions"][0];
    assert_eq!((&row["name"], &row["runtime"]), (&json!("s"), &json!("far")), "{listed}");
    let attached = here.begin(m::ExecAttach::NAME, json!({"exec_id": exec_id, "stdout_offset": 6}));
    wait_until("it is reached again", GUARD, || {
        near.connect().ok(m::SessionList::NAME, json!({}))["sessions"][0]["unresponsive"] != true
    });
    far.restart();
    std::fs::write(far.work().join("go"), "").unwrap();
    let answer = here.finish(attached);
    assert_eq!(String::from_utf8_lossy(&answer.output_from("stdout", 6)), "end kept\n");
    prints(&mut here, "s", "echo $x", "kept\n");

    // A lost host over there is a lost session here, with its output, and can be restarted.
    let host = here.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["host_pid"].as_i64().unwrap() as i32;
    process::signal(host, process::Signal::KILL);
    wait_until("it is lost", GUARD, || {
        here.ok(m::SessionList::NAME, json!({}))["sessions"][0]["state"] == "lost"
    });
    here.fails(m::ExecRun::NAME, json!({"session_id": "s", "command": "true"}), "SESSION_TERMINATED");
    let output = here.ok(m::ExecOutput::NAME, json!({"exec_id": exec_id, "stream": "stdout"}));
    assert_eq!(output["text"], "begun\nend kept\n");
    here.ok(m::SessionRestart::NAME, json!({"session_id": "s"}));
    prints(&mut here, "s", "echo $x", "kept\n");
}

#[test]
fn a_daemon_out_of_reach_is_told_with_the_reason() {
    let Pair { far, proxy, near } = pair();
    let mut here = near.connect();
    create(&mut here, "s");
    wait_until("it is looked at", GUARD, || far_runtime(&mut here, "far")["cpus"] != 0);
    let ready = far_runtime(&mut here, "far");
    let facts =
        (&ready["kind"], &ready["state"], &ready["labels"], &ready["sessions"], &ready["max_sessions"]);
    assert_eq!(facts, (&json!("trl"), &json!("ready"), &json!(["big"]), &json!(1), &json!(8)), "{ready}");
    assert!(ready["rtt_ms"].as_f64().is_some() && ready["isolation"].to_string().contains("none"), "{ready}");
    let chosen = here.ok(m::SessionCreate::NAME, json!({"runtime": "label:big"}));
    assert_eq!(chosen["runtime"], "far");
    assert!(chosen["runtime_reason"].as_str().is_some_and(|why| why.contains("big")), "{chosen}");

    proxy.cut();
    let mut seen = Value::Null;
    wait_until("it is out of reach", GUARD, || {
        seen = far_runtime(&mut here, "far");
        seen["state"] == "unreachable"
    });
    assert!(seen["reason"].as_str().is_some_and(|reason| reason.contains("127.0.0.1")), "{seen}");
    assert_ne!(seen["since"], ready["since"]);
    assert_eq!(here.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["unresponsive"], true);
    let message =
        here.fails(m::ExecRun::NAME, json!({"session_id": "s", "command": "true"}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("\"far\"") && message.contains("trl serve --http"), "{message}");
    here.fails(m::SessionCreate::NAME, json!({"runtime": "far"}), "RUNTIME_UNAVAILABLE");
    let given_up = json!({"session_id": chosen["session_id"], "force": true});
    let message = here.fails(m::SessionDestroy::NAME, given_up.clone(), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("no longer listed"), "{message}");
    here.fails(m::SessionDestroy::NAME, given_up, "SESSION_TERMINATED");
    here.fails(m::SessionDestroy::NAME, json!({"session_id": "s"}), "RUNTIME_UNAVAILABLE");

    proxy.heal();
    wait_until("it is back", GUARD, || far_runtime(&mut here, "far")["state"] == "ready");
    prints(&mut here, "s", "echo back", "back\n");
    assert_eq!(far.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn sessions_there_end_with_their_client_and_with_this_daemon() {
    let Pair { far, proxy: _proxy, mut near } = pair();
    let mut here = near.connect();
    let mut client = near.connect();
    create(&mut here, "stays");
    let bound = create(&mut client, "bound");
    client.ok(m::SessionBind::NAME, json!({"session_id": "bound"}));
    drop(client);
    let mut there = far.connect();
    wait_until("the bound one is over", GUARD, || {
        there.call(m::SessionInfo::NAME, json!({"session_id": bound})).is_err()
    });
    // One that ends over there ends here.
    let gone = create(&mut here, "gone");
    there.ok(m::SessionDestroy::NAME, json!({"session_id": gone}));
    wait_until("it is over here too", GUARD, || {
        here.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().len() == 1
    });
    here.fails(m::ExecRun::NAME, json!({"session_id": gone, "command": "true"}), "SESSION_TERMINATED");
    let remembered = state_dir(&near).join("remote");
    assert!(remembered.exists());
    assert!(near.terminate().success());
    assert_eq!(there.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    assert!(!remembered.exists());
}

/// A certificate that signs itself, for this machine.
fn certificate(dir: &Path, name: &str) -> (String, String) {
    let path = |ext: &str| dir.join(format!("{name}.{ext}")).display().to_string();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            &path("key"),
            "-out",
            &path("pem"),
        ])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (path("pem"), path("key"))
}

#[test]
fn certificates_and_tokens_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, key) = certificate(dir.path(), "ours");
    let (other, _) = certificate(dir.path(), "other");
    let (far, address) =
        far_daemon(|builder| builder.arg("--http-tls-cert").arg(&ours).arg("--http-tls-key").arg(&key));
    let url = format!("https://localhost:{}", address.port());
    let near = near_daemon(&url, &format!("ca = \"{ours}\"\n"));
    let grant = |name: &str, token: &str, url: &str, ca: Option<&str>, expires_at: Value| {
        let ca = ca.map(|path| std::fs::read_to_string(path).unwrap());
        let grant = json!({"url": url, "token": token, "ca": ca, "granted_by": "bob@far", "grant_id": "g", "expires_at": expires_at});
        write_private(&state_dir(&near).join(format!("runtimes/{name}.json")), &grant.to_string());
    };
    let granted =
        |name: &str, url: &str, ca: Option<&str>, expires_at: Value| grant(name, TOKEN, url, ca, expires_at);
    let mut here = near.connect();
    create(&mut here, "s");
    prints(&mut here, "s", "echo by TLS", "by TLS\n");

    // Granted by another agent: usable at once.
    granted("bobs", &url, Some(&ours), Value::Null);
    let created = here.ok(m::SessionCreate::NAME, json!({"runtime": "bobs", "name": "g"}));
    assert_eq!(created["runtime"], "bobs");
    prints(&mut here, "g", "echo granted", "granted\n");
    assert_eq!(far_runtime(&mut here, "bobs")["granted_by"], "bob@far");
    here.fails(m::SessionCreate::NAME, json!({"runtime": "bosb"}), "RUNTIME_NOT_FOUND");

    let mut refused = |runtime: &str, said: &str| {
        let message = here.fails(m::SessionCreate::NAME, json!({"runtime": runtime}), "RUNTIME_UNAVAILABLE");
        assert!(message.contains(said) && !message.contains(TOKEN), "{runtime}: {message}");
    };
    granted("over", &url, Some(&ours), json!("2001-01-01T00:00:00Z"));
    refused("over", "bob@far");
    granted("unknown", &url, None, Value::Null);
    refused("unknown", "certificate");
    granted("another", &url, Some(&other), Value::Null);
    refused("another", "certificate");
    granted("misnamed", &format!("https://127.0.0.1:{}", address.port()), Some(&ours), Value::Null);
    refused("misnamed", "certificate");
    grant("wrong", "another-token-0123456789", &url, Some(&ours), Value::Null);
    refused("wrong", "refuses the token");

    // As a request writes it: the token's file is named after the address.
    let written = format!("trl:https://{address}");
    refused(&written, &format!("tokens/{address}"));
    here.fails(m::SessionCreate::NAME, json!({"runtime": "trl:http://build1.example:7"}), "INVALID_PARAMS");
    here.fails(m::SessionCreate::NAME, json!({"runtime": "trl:"}), "INVALID_PARAMS");
    assert_eq!(far.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn an_address_is_enough_where_its_token_is_known() {
    let (_far, address) = far_daemon(|builder| builder);
    let near = Daemon::builder(trl_testkit::trl!()).start();
    write_private(&near.home().join(format!("config/tokens/{address}")), TOKEN);
    let runtime = format!("trl:http://{address}");
    let ran = near.trl(&["run", "--on", &runtime, "echo there"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "there\n", "{ran:?}");
    let shown = near.trl(&["runtimes"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&runtime), "{shown:?}");
}
