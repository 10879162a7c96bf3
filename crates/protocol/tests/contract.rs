//! The contract for those who speak the protocol in another language, made from the types.
//! The test fails when the two differ; `UPDATE=1` writes the file.

use std::path::Path;

use serde_json::{Map, Value, json};
use trl_protocol::{Code, Event, Fault, METHODS, MethodInfo, PROTOCOL_VERSION, Retry};

fn described(method: &MethodInfo) -> Value {
    let rules = &method.rules;
    let mut described = json!({
        "about": method.about.trim(),
        "params": (method.params_schema)(),
        "reply": (method.reply_schema)(),
        "scope": rules.scope.name(),
        "retry": rules.retry.name(),
    });
    if let Retry::ById(field) = rules.retry {
        described["retry_id"] = json!(field);
    }
    if rules.endless {
        described["endless"] = json!(true);
    }
    if !rules.events.is_empty() {
        described["events"] = json!(rules.events);
    }
    described
}

fn contract() -> String {
    let events: Map<String, Value> =
        Event::schemas().into_iter().map(|(name, schema)| (name.to_owned(), schema.to_value())).collect();
    let methods: Map<String, Value> =
        METHODS.iter().map(|method| (method.name.to_owned(), described(method))).collect();
    let codes: Map<String, Value> = Code::ALL
        .iter()
        .map(|code| {
            let statuses = json!({"http_status": code.http_status(), "exit_status": code.exit_status()});
            (code.to_string(), statuses)
        })
        .collect();
    let document = json!({
        "protocol_version": PROTOCOL_VERSION,
        "methods": methods,
        "events": events,
        "error": schemars::schema_for!(Fault),
        "codes": codes,
    });
    format!("{document:#}\n")
}

#[test]
fn the_contract_is_what_the_types_say() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contract/protocol.json"));
    let made = contract();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
        // What the clients in other languages are made from it.
        let generate = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/generate");
        assert!(std::process::Command::new(generate).status().unwrap().success());
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == made, "docs/contract/protocol.json is out of date; UPDATE=1 writes it anew");
}

#[test]
fn every_event_has_a_schema() {
    use trl_protocol::change::{Change, ChangeEvent, Topic};
    use trl_protocol::exec::Stream::{Stderr, Stdout};
    use trl_protocol::mail::MailEvent;
    let exec_id = "e-00000001-1".parse().unwrap();
    let said = [
        Event::Started { exec_id, pid: Some(1) },
        Event::Queued { exec_id },
        Event::Text { stream: Stdout, offset: 0, text: "" },
        Event::Bytes { stream: Stderr, offset: 0, bytes: b"" },
        Event::Gap { stream: Stdout, from: 0, to: 1 },
        Event::Waiting { exec_id, prompt: "" },
        Event::Mail(&MailEvent { count: 0, ids: Vec::new() }),
        Event::Subscribed { next: 1 },
        Event::Missed { from: 1, to: 2 },
        Event::Change(&ChangeEvent::new(Topic::Session, Change::Created)),
    ];
    let described: Vec<&str> = Event::schemas().into_iter().map(|(name, _)| name).collect();
    assert_eq!(said.map(|event| event.name()), described[..]);
}
