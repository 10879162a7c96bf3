//! MCP as its official clients speak it: the Python SDK, and the inspector's command line.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Http, daemon, process, trl};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where the clients are; installed now if `scripts/test` has not done it.
fn clients() -> PathBuf {
    let output = Command::new(Path::new(ROOT).join("scripts/mcp-clients")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A client's program, in the surroundings of a daemon's client.
fn beside(daemon: &Daemon, program: &str) -> Command {
    let clients = clients();
    let bin = clients.join("venv/bin");
    let mut command = Command::new(clients.join(program));
    command
        .env_clear()
        .envs(daemon.client().get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()))
        .current_dir(daemon.work());
    command
}

#[track_caller]
fn succeeds(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn conversation(daemon: &Daemon) -> Command {
    script(daemon, "conversation.py")
}

fn script(daemon: &Daemon, name: &str) -> Command {
    let mut command = beside(daemon, "venv/bin/python");
    command.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp").join(name));
    command
}

#[test]
fn the_python_sdk_accepts_every_result_of_mail() {
    let daemon = daemon!();
    let mut command = script(&daemon, "mail.py");
    command.arg(trl!());
    succeeds(command);
}

#[test]
fn the_python_sdk_over_stdio() {
    let daemon = daemon!();
    let mut command = conversation(&daemon);
    command.arg("stdio").arg(trl!()).args(["mcp", "--structured"]);
    succeeds(command);
}

#[test]
fn the_python_sdk_over_stdio_without_a_daemon() {
    let nowhere = Daemon::builder(trl!()).prepare();
    let mut command = conversation(&nowhere);
    // Sessions of one embedded runtime are nobody else's: sharing is for daemons.
    command.arg("alone").arg(trl!()).args(["mcp", "--embedded", "--structured"]);
    succeeds(command);
    assert!(nowhere.processes().is_empty());
}

#[test]
fn the_python_sdk_over_http() {
    let (daemon, http) = served();
    let mut command = conversation(&daemon);
    command.arg("http").arg(format!("http://{}/mcp?structured=1", http.address)).arg(http.token);
    succeeds(command);
}

fn served() -> (Daemon, Http) {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    (daemon, http)
}

fn inspected(daemon: &Daemon, target: &[&str], method: &[&str]) -> Value {
    let mut command = beside(daemon, "node_modules/.bin/mcp-inspector");
    command.arg("--cli").args(target).args(["--method"]).args(method);
    let output = succeeds(command);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn inspect(daemon: &Daemon, target: &[&str]) {
    let listed = inspected(daemon, target, &["tools/list", "--strict"]);
    let tools = listed["tools"].as_array().unwrap();
    assert!((4..=10).contains(&tools.len()), "{listed}");
    let call = ["tools/call", "--tool-name", "run", "--tool-arg", "command=echo out; echo err >&2; (exit 3)"];
    let called = inspected(daemon, target, &call);
    let fields = &called["structuredContent"];
    assert_eq!((&fields["stdout"], &fields["stderr"]), (&json!("out\n"), &json!("err\n")), "{called}");
    assert_eq!((&fields["exit_code"], &called["isError"]), (&json!(3), &json!(false)), "{called}");
}

#[test]
fn the_inspector_over_stdio() {
    let daemon = daemon!();
    let home = format!("TRL_HOME={}", daemon.home().display());
    let socket = format!("TRL_SOCKET_PATH={}", daemon.socket().display());
    let program = trl!().display().to_string();
    inspect(&daemon, &["-e", &home, "-e", &socket, &program, "mcp", "--structured"]);
}

#[test]
fn the_inspector_over_http() {
    let (daemon, http) = served();
    let url = format!("http://{}/mcp?structured=1", http.address);
    let token = format!("Authorization: Bearer {}", http.token);
    inspect(&daemon, &[&url, "--transport", "http", "--header", &token]);
}

#[test]
fn the_gate_of_http_stands_before_mcp_too() {
    let mut tokens = tempfile::NamedTempFile::new().unwrap();
    tokens.write_all(b"board read only-for-looking-at-things\n").unwrap();
    let daemon = Daemon::builder(trl!()).http().env("TRL_TOKENS_FILE", tokens.path()).start();
    let http = daemon.http();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let asked = |token: Option<&str>, origin: Option<&str>| {
        let token = token.map(|token| format!("Bearer {token}"));
        let mut headers =
            vec![("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
        headers.extend(token.as_deref().map(|token| ("Authorization", token)));
        headers.extend(origin.map(|origin| ("Origin", origin)));
        http.ask_bare("POST", "/mcp", &headers, body.as_bytes()).status
    };
    assert_eq!(asked(None, None), 401);
    assert_eq!(asked(Some("only-for-looking-at-things"), None), 403);
    assert_eq!(asked(Some(&http.token), Some("https://example.org")), 403);
    assert_eq!(asked(Some(&http.token), None), 400, "only a session is missing");
}

#[test]
fn a_client_of_http_that_falls_silent_is_gone() {
    let daemon = Daemon::builder(trl!()).http().arg("--max-idle").arg("1").start();
    let http = daemon.http();
    let kinds = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];
    let versions = [("Mcp-Protocol-Version", "2025-06-18")];
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "silent", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).to_string();
    let greeted = http.ask("POST", "/mcp", &kinds, hello.as_bytes());
    let session = greeted.header("mcp-session-id").unwrap().to_owned();
    let command = json!({"command": "echo $BASHPID; exec sleep 1000", "background": true, "wait_s": 0.3});
    let call = json!({"name": "run", "arguments": command});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}).to_string();
    let mut headers = kinds.to_vec();
    headers.extend(versions);
    headers.push(("Mcp-Session-Id", &session));
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(http.ask("POST", "/mcp", &headers, ready.as_bytes()).status, 202);
    let called = http.ask("POST", "/mcp?structured=1", &headers, call.as_bytes()).text();
    let result = called
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .find(|data| data.contains("BASHPID") || data.contains("stdout"));
    let result: Value = serde_json::from_str(result.unwrap_or_else(|| panic!("{called}"))).unwrap();
    let pid: i32 = result["result"]["structuredContent"]["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!(process::ended_within(pid, GUARD), "the command of a client that is gone runs on");
}
