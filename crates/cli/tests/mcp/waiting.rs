//! The tools of `trl mcp` for what takes its time, and for what has a screen.

use serde_json::json;
use trl_testkit::{daemon, own_port};

use super::client::{Mcp, text};

#[test]
fn wait_comes_back_when_the_log_says_so_and_shows_what_is_new() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let serve = "echo starting; read -r go; printf 'rea'; printf 'dy\\n'; echo warm >&2; exec sleep 1000";
    let exec =
        mcp.fields("run", json!({"command": serve, "background": true, "interactive": true}))["exec_id"]
            .clone();
    let early = mcp.call("wait", json!({"exec_id": exec, "log": "ready", "timeout_s": 0.05}));
    assert_eq!(early["structuredContent"]["state"].as_str().map(|state| state == "finished"), Some(false));
    assert!(text(&early).contains("was not met within 0.05 s"), "{}", text(&early));
    mcp.call("input", json!({"exec_id": exec, "text": "go\n", "wait_s": 0}));
    let ready = mcp.call("wait", json!({"exec_id": exec, "log": "^read[xy]", "regex": true}));
    assert!(text(&ready).contains("found \"ready\" in stdout"), "{}", text(&ready));
    assert_eq!(mcp.fields("cancel", json!({"exec_id": exec}))["cancelled"], true);
    let over = mcp.fields("wait", json!({"exec_id": exec}));
    assert_eq!((&over["state"], &over["cancelled"]), (&json!("finished"), &json!(true)), "{over}");
}

#[test]
fn wait_without_more_words_is_for_the_exit_and_a_log_that_cannot_come_is_told() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let exec =
        mcp.fields("run", json!({"command": "echo done; (exit 4)", "background": true}))["exec_id"].clone();
    let over = mcp.fields("wait", json!({"exec_id": exec}));
    assert_eq!((&over["state"], &over["exit_code"]), (&json!("finished"), &json!(4)), "{over}");
    let never = mcp.call("wait", json!({"exec_id": exec, "log": "ready"}));
    assert!(text(&never).contains("over before what was waited for came"), "{}", text(&never));
    assert_eq!(mcp.refused("wait", json!({"exec_id": exec, "log": "(", "regex": true})), "INVALID_PARAMS");
    assert_eq!(mcp.refused("wait", json!({"exec_id": exec, "log": "x", "port": 1})), "INVALID_PARAMS");
    assert_eq!(mcp.refused("wait", json!({"exec_id": "e-00000000-1"})), "EXEC_NOT_FOUND");
}

#[test]
fn wait_comes_back_when_the_port_answers() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let port = own_port();
    let serve = format!("sleep 0.2; exec python3 -m http.server --bind 127.0.0.1 {port}");
    let exec = mcp.fields("run", json!({"command": serve, "background": true}))["exec_id"].clone();
    let open = mcp.call("wait", json!({"exec_id": exec, "port": port, "http_path": "/", "timeout_s": 60}));
    assert!(text(&open).contains("answers with HTTP status 200"), "{}", text(&open));
}

#[test]
fn screen_shows_what_a_person_would_see() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let numbers = "seq 1 500 | less -X";
    let exec =
        mcp.fields("run", json!({"command": numbers, "interactive": true, "wait_s": 1}))["exec_id"].clone();
    let first = mcp.fields("wait", json!({"exec_id": exec, "log": "23"}));
    assert_ne!(first["state"], "finished", "{first}");
    let top = mcp.call("screen", json!({"exec_id": exec}));
    assert_eq!(top["structuredContent"]["lines"][0], "1");
    assert!(text(&top).contains("×40 screen, cursor at line 40"), "{}", text(&top));
    mcp.call("input", json!({"exec_id": exec, "text": "G"}));
    mcp.call("wait", json!({"exec_id": exec, "log": "(END)"}));
    let bottom = mcp.call("screen", json!({"exec_id": exec}));
    assert!(text(&bottom).contains("\n500\n"), "{}", text(&bottom));
    mcp.call("input", json!({"exec_id": exec, "text": "q"}));
    assert_eq!(mcp.fields("wait", json!({"exec_id": exec}))["exit_code"], 0);
    let plain = mcp.fields("run", json!({"command": "true"}))["exec_id"].clone();
    assert_eq!(mcp.refused("screen", json!({"exec_id": plain})), "INVALID_PARAMS");
}
