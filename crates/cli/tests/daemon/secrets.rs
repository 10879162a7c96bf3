//! What the commands that a daemon runs can learn of the daemon's secrets.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Builder, Daemon, Http, daemon, needs, process, trl};

const ADMIN: &str = "token-of-the-admin-0123456789";
const RUN: &str = "token-that-runs-0123456789abc";

/// A daemon with an admin's token in its environment, one that may only run commands in a file,
/// and a broker's password in its arguments.
fn serving(builder: Builder) -> Daemon {
    let daemon = builder
        .arg("--http")
        .arg("127.0.0.1:0")
        .arg("--tokens")
        .arg("tokens")
        .arg("--relay")
        .arg("nats://someone:password-of-the-broker@127.0.0.1:1")
        .env("TRL_AUTH_TOKEN", ADMIN)
        .env("TRL_RELAY_KEY", "path-of-a-secret")
        .env("OTHER_URL", "scheme://user:word@host")
        .prepare();
    let tokens = daemon.work().join("tokens");
    std::fs::write(&tokens, format!("ci run {RUN}\n")).unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    daemon
}

/// What a command prints that is run over HTTP by whoever may only run.
fn run(daemon: &Daemon, command: &str) -> String {
    let http = Http { token: RUN.to_owned(), ..daemon.http() };
    let ran = http.ok(m::ExecRun::NAME, json!({"session_id": "x", "command": command}));
    format!("{}{}", ran["stdout"].as_str().unwrap(), ran["stderr"].as_str().unwrap())
}

#[test]
fn neither_environment_nor_arguments_of_the_daemon_tell_its_secrets() {
    let daemon = serving(Daemon::builder(trl!())).started();
    let http = Http { token: RUN.to_owned(), ..daemon.http() };
    http.ok(m::SessionCreate::NAME, json!({"name": "x", "shell": "bash"}));
    assert_eq!(http.call(m::SystemShutdown::NAME, json!({})).status, 403);
    let pid = daemon.pid();
    let seen =
        run(&daemon, &format!("cat /proc/{pid}/environ /proc/{pid}/cmdline | tr '\\0' '\\n'; env; set"));
    assert!(seen.contains("nats://**") && seen.contains("OTHER_URL=scheme://user:word@host"), "{seen}");
    for secret in [ADMIN, RUN, "password-of-the-broker", "path-of-a-secret"] {
        assert!(!seen.contains(secret), "{seen}");
    }
    // Nor do the processes in between.
    let everyone = daemon.processes();
    assert!(everyone.len() > 2, "{everyone:?}");
    for pid in everyone {
        let environment = process::environment(pid);
        assert!(!environment.iter().any(|entry| entry.ends_with(ADMIN.as_bytes())), "{pid}");
    }
    // The daemon itself still knows them.
    let admin = Http { token: ADMIN.to_owned(), ..daemon.http() };
    assert_eq!(admin.call(m::SystemPing::NAME, json!({})).status, 200);
}

#[test]
fn settings_of_whoever_creates_a_session_stay_outside() {
    let daemon = Daemon::builder(trl!()).env("TRL_AUTH_TOKEN", ADMIN).start();
    let mut client = daemon.client();
    client.env("TRL_TOKENS_FILE", "path-of-a-secret").env("PLAIN", "goes-along");
    let output = client.args(["run", "env; tr '\\0' '\\n' </proc/$PPID/environ"]).output().unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(seen.contains("PLAIN=goes-along") && seen.contains("TRL_SESSION_ID="), "{output:?}");
    assert!(!seen.contains(ADMIN) && !seen.contains("path-of-a-secret"), "{seen}");
}

#[test]
fn a_command_of_the_same_user_cannot_look_into_the_daemon() {
    if !needs::root("start a daemon as another user") {
        return;
    }
    let launcher = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let program = tempfile::tempdir().unwrap();
    std::fs::set_permissions(program.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Where the binary is built, others may not go.
    let copy = program.path().join("trl");
    std::fs::copy(trl!(), &copy).unwrap();
    let daemon = serving(Daemon::builder(&copy).launched_by(&launcher));
    chown_all(daemon.home().parent().unwrap());
    let daemon = daemon.started();
    let http = Http { token: RUN.to_owned(), ..daemon.http() };
    http.ok(m::SessionCreate::NAME, json!({"name": "x", "shell": "bash"}));
    let pid = daemon.pid();
    assert_eq!(run(&daemon, "id -u").trim(), "65534");
    for what in ["environ", "mem", "maps", "fd/", "cwd/", "auxv"] {
        let seen = run(&daemon, &format!("head -c 1 /proc/{pid}/{what} | wc -c; ls /proc/{pid}/{what}/"));
        assert!(seen.contains("Permission denied") && seen.contains('0'), "{what}: {seen}");
    }
    // What it starts is not closed: sessions need their own /proc.
    assert!(run(&daemon, "head -c 1 /proc/$$/environ | wc -c").contains('1'));
}

/// Every user of the machine can read another's arguments.
#[test]
fn the_token_of_another_listener_is_not_in_its_arguments() {
    const TOKEN: &str = "token-of-swerex-0123456789abc";
    let daemon = daemon!();
    for flag in [&["--auth-token", TOKEN][..], &[&format!("--auth-token={TOKEN}")]] {
        let mut server = daemon.client();
        server.args(["swerex", "--host", "127.0.0.1", "--port", "0"]).args(flag);
        let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let arguments = std::fs::read(format!("/proc/{}/cmdline", server.id())).unwrap();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        process::signal(server.id() as i32, process::Signal::TERM);
        server.wait().unwrap();
        assert!(said.contains("http://127.0.0.1:"), "{said}");
        assert!(arguments.contains("swerex") && !arguments.contains("token-of"), "{arguments}");
    }
}

fn chown_all(path: &Path) {
    assert!(Command::new("chown").args(["-R", "65534:65534"]).arg(path).status().unwrap().success());
}
