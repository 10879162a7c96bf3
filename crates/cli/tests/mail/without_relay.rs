//! A build without the relay between machines: mail stays here, and asking for more is an error that says so.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, trl};

#[test]
fn asking_for_a_relay_is_an_error_that_names_the_build() {
    let daemon = Daemon::builder(trl!()).env("TRL_RELAY", "nats://127.0.0.1:1").start();
    let fault = daemon.connect().call(m::AgentCreate::NAME, json!({"name": "alice"})).unwrap_err();
    assert_eq!(fault["details"]["reason"], "relay_not_in_this_build", "{fault}");
    assert!(fault["message"].as_str().unwrap().contains("relay-nats"), "{fault}");
    let output = daemon.trl(&["relay", "check"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && message.contains("relay-nats"), "{message}");
    // Nothing else is affected.
    daemon.connect().ok(m::SessionCreate::NAME, json!({}));
}

#[test]
fn mail_on_this_machine_works() {
    let daemon = Daemon::builder(trl!()).start();
    let mut connection = daemon.connect();
    connection.ok(m::AgentCreate::NAME, json!({"name": "alice"}));
    connection.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    assert_eq!(connection.ok(m::MailSend::NAME, json!({"to": "alice", "text": "hi"}))["via"], "embedded");
}
