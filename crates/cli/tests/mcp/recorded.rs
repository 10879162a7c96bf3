//! Conversations of the official Python SDK, recorded: what it said (`>`) and what it was answered (`<`).
//!
//! The answers hold the whole list of tools, so this is also where a change of it shows.
//! `UPDATE=1` writes them anew.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::path::Path;

use serde_json::Value;
use trl_testkit::daemon;

use super::client::Mcp;

fn replay(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/mcp/recorded-{name}.txt"));
    let recorded = std::fs::read_to_string(&path).unwrap();
    let daemon = daemon!();
    let mut command = daemon.client();
    command.arg("mcp");
    let mut mcp = Mcp::start(command);
    let mut replayed = String::new();
    for line in recorded.lines().filter_map(|line| line.strip_prefix("> ")) {
        let said: Value = serde_json::from_str(line).unwrap();
        mcp.send(&said);
        replayed.push_str(&format!("> {line}\n"));
        if let Some(id) = said["id"].as_u64() {
            let mut answer = mcp.answer_to(id);
            steady(&mut answer);
            replayed.push_str(&format!("< {answer}\n"));
        }
    }
    mcp.close();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &replayed).unwrap();
        return;
    }
    for (then, now) in recorded.lines().zip(replayed.lines()) {
        assert_eq!(then, now);
    }
    assert!(recorded == replayed, "{name}: other lines than recorded; UPDATE=1 writes them anew");
}

/// Takes out what is different each time: ids, names and times.
fn steady(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "duration_ms" => *field = 0.into(),
                    "tools" => tools_of_then(field),
                    "version" => *field = "0".into(),
                    "text" => *field = steady_text(field.as_str().unwrap_or_default()).into(),
                    "exec_id" | "session" | "session_id" if field.is_string() => *field = "…".into(),
                    _ => steady(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        _ => {}
    }
}

/// Without those that came after the recording.
fn tools_of_then(tools: &mut Value) {
    if let Value::Array(tools) = tools {
        tools.retain(|tool| tool["name"] != "screen" && tool["name"] != "wait");
    }
}

fn steady_text(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']).collect::<Vec<_>>();
    let mut steady = String::new();
    for (index, word) in words.iter().enumerate() {
        let is_time = words.get(index + 1).is_some_and(|next| next.starts_with("ms,"));
        let is_name = word.starts_with("mcp:") || word.contains("exec_id=\"e-");
        steady.push_str(if is_time || is_name { "… " } else { word });
    }
    steady
}

#[test]
fn with_a_handshake() {
    replay("2025-11-25");
}

#[test]
fn without_one() {
    replay("2026-07-28");
}
