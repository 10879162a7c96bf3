//! What `Debug` tells of every type that holds a secret, in one list.

use trl_protocol::agent::{CallerParams, Mode, Token, Used};
use trl_protocol::mail::{
    AwaitParams, CheckedReply, Inbox, InboxParams, Message, MessageParams, ReplyParams, SendAndWaitParams,
    SendParams,
};

use crate::engine::{AgentKeys, Assignment};
use crate::envelope::{EncodeInput, decode};
use crate::identity::Identity;
use crate::seal::{Device, Ratchet};

const SEED: [u8; 32] = [7; 32];
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A device and a ratchet with another, and everything in them that must not be told.
fn keys() -> (Device, Ratchet, Vec<String>) {
    let (alice, bob) = (Identity::from_bytes(&SEED), Identity::from_bytes(&[8; 32]));
    let (device, mut other) = (Device::generate(), Device::generate());
    let key = other.one_time_keys(&bob, 1, 1).remove(0);
    let card = other.card(&bob, 1).verify(bob.address()).unwrap();
    let ratchet = device.start(&card, &key).unwrap();
    let mut secrets = Vec::new();
    for stored in [device.store().unwrap(), ratchet.store().unwrap(), alice.to_bytes()] {
        secrets.push(format!("{:?}", stored.as_slice()));
        collect(&serde_json::from_slice(&stored).unwrap_or_default(), &mut secrets);
    }
    secrets.push(format!("{SEED:?}"));
    (device, ratchet, secrets)
}

/// Every text and every list of bytes in a stored key, as `Debug` would write it.
fn collect(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Array(items) if items.len() >= 16 => found.push(format!("{items:?}")),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| collect(item, found)),
        serde_json::Value::String(text) if text.len() >= 32 => found.push(text.clone()),
        _ => {}
    }
}

#[test]
fn debug_tells_no_secret() {
    let (device, ratchet, mut secrets) = keys();
    secrets.push(TOKEN.to_owned());
    let public = device.card(&Identity::from_bytes(&SEED), 1).device;
    let id = ratchet.id();
    let token = || Some(Token(TOKEN.to_owned()));
    let text = || "t".to_owned();
    let used = Used {
        agent: "a".into(),
        address: "x".into(),
        label: "claude:1".into(),
        requested: None,
        reason: None,
        mode: Mode::Daemon,
        token: Token(TOKEN.to_owned()),
        live_sessions: Vec::new(),
    };
    let address = Identity::from_bytes(&SEED).address().to_string();
    let kept = AgentKeys { identity: Identity::from_bytes(&SEED), device, epoch: 3 };
    let snapshot = [
        (
            format!("{kept:?}"),
            "AgentKeys { identity: Identity { address: ADDRESS, .. }, device: Device { key: \"PUBLIC\", .. }, epoch: 3 }",
        ),
        (format!("{ratchet:?}"), "Ratchet { id: \"ID\", .. }"),
        (format!("{:?}", Token(TOKEN.to_owned())), "[token]"),
        (
            format!("{used:?}"),
            "Used { agent: \"a\", address: \"x\", label: \"claude:1\", requested: None, reason: None, mode: Daemon, token: [token], live_sessions: [] }",
        ),
        (format!("{:?}", CallerParams { as_token: token() }), "CallerParams { as_token: Some([token]) }"),
        (
            format!("{:?}", MessageParams { message_id: text(), as_token: token() }),
            "MessageParams { message_id: \"t\", as_token: Some([token]) }",
        ),
        (
            format!("{:?}", InboxParams { as_token: token(), ..InboxParams::default() }),
            "InboxParams { peek: false, limit: None, wait_s: None, ack: None, as_token: Some([token]) }",
        ),
        (
            format!(
                "{:?}",
                AwaitParams { message_id: text(), timeout_s: None, peek: false, as_token: token() }
            ),
            "AwaitParams { message_id: \"t\", timeout_s: None, peek: false, as_token: Some([token]) }",
        ),
        (
            format!(
                "{:?}",
                ReplyParams {
                    message_id: text(),
                    text: "t".into(),
                    auto: None,
                    to: None,
                    send_id: None,
                    unless_sent_within_s: None,
                    as_token: token()
                }
            ),
            "ReplyParams { message_id: \"t\", text: [1 bytes], auto: None, to: None, send_id: None, unless_sent_within_s: None, as_token: Some([token]) }",
        ),
        (
            format!("{:?}", SendParams { as_token: token(), ..SendParams::default() }),
            "SendParams { to: \"\", text: [0 bytes], to_session: None, role: None, in_reply_to: None, auto: None, expires_s: None, send_id: None, unless_sent_within_s: None, as_token: Some([token]) }",
        ),
    ];
    for (told, expected) in &snapshot {
        // The shortest first: a key may well have its two letters in it.
        let expected = expected.replace("ID", &id).replace("ADDRESS", &address).replace("PUBLIC", &public);
        assert_eq!(*told, expected);
    }
    for secret in secrets.iter().filter(|secret| **secret != public && **secret != id) {
        for (told, _) in &snapshot {
            assert!(!told.contains(secret.as_str()), "{told} tells {secret}");
        }
    }
}

/// What somebody wrote is a secret too, wherever it is on its way.
#[test]
fn debug_tells_no_text() {
    const TEXT: &str = "the code is 4711";
    let message = || Message { message_id: "m-1".into(), text: TEXT.into(), ..Message::default() };
    let told = "Message { message_id: \"m-1\", from: \"\", from_address: \"\", from_session: None, to_session: None, role: None, text: [16 bytes], in_reply_to: None, auto: false, timestamp: \"\", dropped: [] }";
    let assignment = Assignment {
        agent_id: 1,
        mail_id: 2,
        message_id: "m-1".into(),
        command: vec!["answer".into(), TEXT.into()],
        network: false,
        message: serde_json::json!({ "text": TEXT }),
    };
    let input = EncodeInput { text: TEXT.into(), ..EncodeInput::default() };
    let snapshot = [
        (format!("{:?}", message()), told.to_owned()),
        (
            format!("{:?}", Inbox { messages: vec![message()], remaining: 0 }),
            format!("Inbox {{ messages: [{told}], remaining: 0 }}"),
        ),
        (
            format!("{:?}", CheckedReply { reply: Some(message()) }),
            format!("CheckedReply {{ reply: Some({told}) }}"),
        ),
        (
            format!("{:?}", SendAndWaitParams { text: TEXT.into(), ..SendAndWaitParams::default() }),
            "SendAndWaitParams { to: \"\", text: [16 bytes], to_session: None, role: None, in_reply_to: None, auto: None, expires_s: None, send_id: None, unless_sent_within_s: None, timeout_s: None, peek: false, as_token: None }".into(),
        ),
        (
            format!("{:?}", decode(TEXT)),
            "Decoded { auto: false, in_reply_to: None, text: [16 bytes], message_id: None, from_session: None, to_session: None, role: None, envelope: false, written_at: None, own: None }".into(),
        ),
        (
            format!("{input:?}"),
            "EncodeInput { agent_address: \"\", from_session: None, to_session: None, in_reply_to: None, auto: false, role: None, text: [16 bytes], message_id: None, cwd: None, harness_session_id: \"\", now: None, harness: None, own: None }".into(),
        ),
        (
            format!("{assignment:?}"),
            "Assignment { agent_id: 1, mail_id: 2, message_id: \"m-1\", network: false, .. }".into(),
        ),
    ];
    for (told, expected) in &snapshot {
        assert_eq!(told, expected);
        assert!(!told.contains("4711"), "{told}");
    }
}

#[test]
fn errors_tell_no_secret() {
    let broken = br#"{"signing_key":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}"#;
    for told in [
        format!("{:?}", Device::restore(broken).unwrap_err()),
        format!("{:?}", Ratchet::restore(broken).unwrap_err()),
        Device::restore(broken).unwrap_err().to_string(),
    ] {
        assert!(!told.contains("c2Vj"), "{told}");
    }
}
