//! What `/metrics` counts is what happened.

#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, Http, trl};

fn counted(http: &Http, name: &str) -> u64 {
    let page = http.ask("GET", "/metrics", &[], b"").text();
    let row = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    row.unwrap_or_else(|| panic!("{name} is missing in:\n{page}")).parse().unwrap()
}

const STDOUT: &str = "trl_output_bytes_total{stream=\"stdout\"}";
const STDERR: &str = "trl_output_bytes_total{stream=\"stderr\"}";
const RESTARTS: &str = "trl_session_restarts_total";

#[test]
fn output_and_restarts_are_counted_however_a_command_was_run_and_stay() {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    http.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "s"}));
    assert_eq!((counted(&http, STDOUT), counted(&http, RESTARTS)), (0, 0));
    http.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "printf 1234; printf 12 >&2"}));
    http.ok(m::ExecStream::NAME, json!({"session_id": "s", "command": "printf 123"}));
    let started = http.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": "printf 12345"}));
    http.ok(m::ExecWait::NAME, json!({"exec_id": started["exec_id"]}));
    http.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "printf 1", "tty": true}));
    // One that has not ended counts too.
    let endless = http.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": "printf 1; sleep 1000"}));
    let shown = json!({"exec_id": endless["exec_id"], "until": {"log": {"pattern": "1"}}});
    http.ok(m::ExecWait::NAME, shown);
    http.ok(m::SessionRestart::NAME, json!({"session_id": "s"}));
    let now = || (counted(&http, STDOUT), counted(&http, STDERR), counted(&http, RESTARTS));
    assert_eq!(now(), (14, 2, 1));
    http.ok(m::SessionDestroy::NAME, json!({"session_id": "s"}));
    assert_eq!(now(), (14, 2, 1), "what is over has still happened");
    http.ok(m::SessionCreate::NAME, json!({"shell": "sh", "name": "s"}));
    http.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "printf 1"}));
    assert_eq!(now(), (15, 2, 1));
}

#[test]
fn mail_is_counted_both_ways() {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    let token = |name: &str| {
        http.ok(m::AgentCreate::NAME, json!({"name": name}));
        http.ok(m::AgentUse::NAME, json!({"agent": name}))["token"].clone()
    };
    let (ann, bob) = (token("ann"), token("bob"));
    http.ok(m::MailSend::NAME, json!({"to": "bob", "text": "hello", "as": ann}));
    let read = http.ok(m::MailInbox::NAME, json!({"wait_s": 30, "as": bob}));
    assert_eq!(read["messages"].as_array().map(Vec::len), Some(1), "{read}");
    assert_eq!((counted(&http, "trl_mail_sent_total"), counted(&http, "trl_mail_read_total")), (1, 1));
}
