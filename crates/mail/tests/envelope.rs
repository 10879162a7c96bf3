//! The body format against recorded pairs of another implementation, and against its traps.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use proptest::prelude::*;
use serde_json::{Value, json};
use trl_mail::envelope::{Decoded, Defaults, EncodeInput, OwnBlock, Stamp, decode, decode_bytes, encode};
use trl_mail::label::Label;

fn vectors() -> Value {
    serde_json::from_str(include_str!("fixtures/envelope-vectors.json")).unwrap()
}

fn rows(all: &Value, name: &str) -> Vec<Value> {
    let rows = all[name].as_array().unwrap().clone();
    assert!(!rows.is_empty());
    rows
}

fn defaults() -> Defaults {
    Defaults { now_ms: 1_767_323_045_678, message_id: "msg-ffffffffffffffffff".into(), cwd: "/".into() }
}

fn said(decoded: &Decoded) -> Value {
    json!({
        "auto": decoded.auto, "inReplyTo": decoded.in_reply_to, "text": decoded.text,
        "messageId": decoded.message_id, "fromSession": decoded.from_session,
        "toSession": decoded.to_session, "role": decoded.role, "envelope": decoded.envelope,
    })
}

#[test]
fn every_recorded_encoding_is_byte_exact() {
    let all = vectors();
    for row in rows(&all, "encode") {
        let given = |name: &str| row["input"][name].as_str().map(str::to_owned);
        let input = EncodeInput {
            agent_address: given("agentAddress").unwrap(),
            from_session: given("fromSession"),
            to_session: given("toSession"),
            in_reply_to: given("inReplyTo"),
            auto: row["input"]["auto"].as_bool().unwrap_or(false),
            role: given("role"),
            text: given("text").unwrap_or_default().into(),
            message_id: given("messageId"),
            cwd: given("cwd"),
            harness_session_id: given("harnessSessionId").unwrap(),
            now: Some(Stamp::Text("2026-01-02T03:04:05.678Z".into())),
            ..EncodeInput::default()
        };
        let body = encode(&input, &defaults()).unwrap();
        assert_eq!(body, row["body"].as_str().unwrap(), "{}", row["name"]);
        assert_eq!(body.len() as u64, row["body_bytes"].as_u64().unwrap());
        assert_eq!(said(&decode(&body)), row["decoded"], "{}", row["name"]);
    }
}

#[test]
fn every_recorded_body_is_read_alike() {
    let all = vectors();
    for row in rows(&all, "decode") {
        let body = row["body"].as_str().unwrap();
        let hex: String = body.bytes().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, row["body_hex"].as_str().unwrap(), "{}", row["name"]);
        assert_eq!(said(&decode(body)), row["decoded"], "{}", row["name"]);
        assert_eq!(said(&decode_bytes(body.as_bytes())), row["decoded"], "{}", row["name"]);
    }
}

#[test]
fn the_older_form_is_written_and_read_alike() {
    let all = vectors();
    for row in rows(&all, "encode_auto_reply") {
        let body =
            trl_mail::envelope::encode_auto_reply(row["in_reply_to"].as_str(), row["text"].as_str().unwrap());
        assert_eq!(body, row["body"].as_str().unwrap());
        assert_eq!(said(&decode(&body)), row["decoded"]);
    }
}

#[test]
fn labels_are_judged_alike() {
    let all = vectors();
    for row in rows(&all, "safe_label") {
        let output = row["input"].as_str().and_then(|text| Label::new(text).ok());
        assert_eq!(json!(output), row["output"], "{row}");
    }
}

const HEAD: &str = r#"{"envelope_version":"tinyplace.harness.session.v1","message":{"text":"#;

#[test]
fn what_our_parser_refuses_is_text_and_not_lost() {
    let deep = format!("{HEAD}\"t\"}},\"x\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let bodies = [
        format!("{HEAD}\"\\ud800\"}}}}"),
        format!("{HEAD}\"\\udc00 tail\"}}}}"),
        format!("{HEAD}\"t\"}},\"n\":1e999}}"),
        format!("\u{feff}{HEAD}\"t\"}}}}"),
        format!("{HEAD}\"t\"}}}} trailing"),
        format!("{HEAD}\"raw \n newline\"}}}}"),
        deep,
    ];
    for body in bodies {
        let decoded = decode(&body);
        assert!(!decoded.envelope);
        assert_eq!(decoded.text, body);
    }
}

#[test]
fn a_reply_header_without_the_auto_mark_is_text() {
    let decoded = decode("\u{1}re:x\u{1}hello");
    assert_eq!(
        (decoded.auto, decoded.in_reply_to, decoded.text.as_str()),
        (false, None, "\u{1}re:x\u{1}hello")
    );
}

#[test]
fn bytes_that_are_no_text_are_kept_as_well_as_can_be() {
    assert_eq!(decode_bytes(b"a\xffb").text, "a\u{fffd}b");
}

#[test]
fn our_block_is_ours_alone() {
    let own = OwnBlock {
        v: 1,
        session: Some("u".into()),
        hops: 2,
        chain: vec!["a".into(), "b".into()],
        expires_at: Some(5),
        runtime: None,
    };
    let input = EncodeInput {
        agent_address: "A".into(),
        harness_session_id: "h".into(),
        text: "t".into(),
        own: Some(own.clone()),
        ..EncodeInput::default()
    };
    let body = encode(&input, &defaults()).unwrap();
    let decoded = decode(&body);
    assert_eq!(decoded.own, Some(own));
    assert!(
        body.contains(r#""tp":{"v":1,"from_session":"claude:1"},"trl":{"v":1,"session":"u","hops":2"#),
        "{body}"
    );
    let broken = body.replace(r#""hops":2"#, r#""hops":"two""#);
    assert_eq!((decode(&broken).own, decode(&broken).text.as_str()), (None, "t"));
}

#[test]
fn what_is_left_out_may_be_null() {
    let given = r#"{"agent_address":"a","harness_session_id":"h","from_session":null,"to_session":null,
        "in_reply_to":null,"auto":null,"role":null,"text":null,"message_id":null,"cwd":null,"now":null}"#;
    let input: trl_mail::envelope::EncodeInput = serde_json::from_str(given).unwrap();
    assert_eq!((input.auto, &*input.text), (false, ""));
}

#[test]
fn what_must_not_be_written_is_refused() {
    let good =
        EncodeInput { agent_address: "A".into(), harness_session_id: "h".into(), ..EncodeInput::default() };
    assert!(encode(&good, &defaults()).is_ok());
    let cases = [
        EncodeInput { from_session: Some("a b".into()), ..good.clone() },
        EncodeInput { to_session: Some("é".into()), ..good.clone() },
        EncodeInput { harness_session_id: String::new(), ..good.clone() },
        EncodeInput { now: Some(Stamp::Text("yesterday".into())), ..good.clone() },
        EncodeInput { now: Some(Stamp::Millis(i64::MAX)), ..good.clone() },
    ];
    for case in cases {
        assert!(encode(&case, &defaults()).is_err(), "{case:?}");
    }
}

proptest! {
    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        let input = EncodeInput {
            agent_address: "A".into(), harness_session_id: "h".into(), text: text.clone().into(),
            ..EncodeInput::default()
        };
        let decoded = decode(&encode(&input, &defaults()).unwrap());
        prop_assert!(decoded.envelope);
        prop_assert_eq!(decoded.text, text);
    }

    #[test]
    fn any_bytes_are_read_without_harm(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode_bytes(&body);
    }
}
