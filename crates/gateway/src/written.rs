//! Lines that are written: responses and events.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::Write as _;
use trl_protocol::{Event, Fault, Reply};

use crate::json_text;

/// Appends the one response to a request. `id` is JSON.
pub(crate) fn put_response(out: &mut Vec<u8>, id: &str, result: &Result<Reply, Fault>) {
    let start = out.len();
    let written = match result {
        Ok(reply) => {
            put_all(out, &[b"{\"id\":", id.as_bytes(), b",\"ok\":true,\"data\":"]);
            serde_json::to_writer(&mut *out, reply)
        }
        Err(fault) => {
            put_all(out, &[b"{\"id\":", id.as_bytes(), b",\"ok\":false,\"error\":"]);
            serde_json::to_writer(&mut *out, fault)
        }
    };
    if let Err(error) = written {
        tracing::error!(%error, "a response could not be written");
        out.truncate(start);
        put_all(out, &[b"{\"id\":", id.as_bytes()]);
        out.extend_from_slice(
            br#","ok":false,"error":{"code":"INTERNAL_ERROR","message":"the response could not be written"}"#,
        );
    }
    out.extend_from_slice(b"}\n");
}

/// Appends one event of a streaming request. `id` is JSON.
pub(crate) fn put_event(out: &mut Vec<u8>, id: &str, event: &Event<'_>) {
    put_all(out, &[b"{\"id\":", id.as_bytes(), b",\"event\":\"", event.name().as_bytes(), b"\",\"data\":{"]);
    match event {
        Event::Started { exec_id } => put_format(out, format_args!("\"exec_id\":\"{exec_id}\"")),
        Event::Text { offset, text, .. } => {
            out.extend_from_slice(b"\"text\":");
            json_text::put(out, text);
            put_format(out, format_args!(",\"offset\":{offset}"));
        }
        Event::Bytes { offset, bytes, .. } => {
            out.extend_from_slice(b"\"base64\":\"");
            put_base64(out, bytes);
            put_format(out, format_args!("\",\"offset\":{offset}"));
        }
        Event::Gap { stream, from, to } => {
            put_format(out, format_args!("\"stream\":\"{}\",\"from\":{from},\"to\":{to}", stream.name()));
        }
        Event::Waiting { exec_id, prompt } => {
            put_format(out, format_args!("\"exec_id\":\"{exec_id}\",\"prompt\":"));
            json_text::put(out, prompt);
        }
        Event::Mail { count, ids } => {
            put_format(out, format_args!("\"count\":{count},\"ids\":["));
            for (index, id) in ids.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                json_text::put(out, id);
            }
            out.push(b']');
        }
        Event::Subscribed { next } => put_format(out, format_args!("\"next\":{next}")),
        Event::Missed { from, to } => put_format(out, format_args!("\"from\":{from},\"to\":{to}")),
        Event::Change(change) => {
            // The braces are the line's own.
            out.pop();
            let written = serde_json::to_writer(&mut *out, change);
            debug_assert!(written.is_ok(), "a change is always written");
            out.pop();
        }
    }
    out.extend_from_slice(b"}}\n");
}

fn put_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn put_format(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "a Vec takes all");
}

fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    debug_assert!(written.is_ok(), "the room is measured");
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::exec::Stream;
    use trl_protocol::system::Pong;
    use trl_protocol::{ExecId, SessionId};

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn responses_echo_the_id_as_it_was_written() {
        let pong = Ok(Reply::SystemPing(Box::new(Pong { uptime_s: 1.5, version: "v".into() })));
        assert_eq!(
            text(|out| put_response(out, "\"a\\n\"", &pong)),
            "{\"id\":\"a\\n\",\"ok\":true,\"data\":{\"uptime_s\":1.5,\"version\":\"v\"}}\n"
        );
        assert_eq!(
            text(|out| put_response(out, "7", &Err(Fault::invalid("no \"x\"")))),
            "{\"id\":7,\"ok\":false,\"error\":{\"code\":\"INVALID_PARAMS\",\"message\":\"no \\\"x\\\"\"}}\n"
        );
    }

    #[test]
    fn events_as_lines() {
        let exec_id = ExecId { session: SessionId(1), number: 2 };
        let ids = ["m-1".to_owned(), "a\"b".to_owned()];
        let cases = [
            (
                Event::Mail { count: 3, ids: &ids },
                r#"{"id":1,"event":"mail","data":{"count":3,"ids":["m-1","a\"b"]}}"#,
            ),
            (Event::Started { exec_id }, r#"{"id":1,"event":"started","data":{"exec_id":"e-00000001-2"}}"#),
            (
                Event::Text { stream: Stream::Stdout, offset: 3, text: "a\n" },
                r#"{"id":1,"event":"stdout","data":{"text":"a\n","offset":3}}"#,
            ),
            (
                Event::Bytes { stream: Stream::Stderr, offset: 0, bytes: b"\0\xff" },
                r#"{"id":1,"event":"stderr","data":{"base64":"AP8=","offset":0}}"#,
            ),
            (
                Event::Gap { stream: Stream::Stdout, from: 1, to: 9 },
                r#"{"id":1,"event":"gap","data":{"stream":"stdout","from":1,"to":9}}"#,
            ),
            (
                Event::Waiting { exec_id, prompt: "Name: " },
                r#"{"id":1,"event":"waiting","data":{"exec_id":"e-00000001-2","prompt":"Name: "}}"#,
            ),
        ];
        for (event, expected) in cases {
            assert_eq!(text(|out| put_event(out, "1", &event)), format!("{expected}\n"));
        }
    }
}
