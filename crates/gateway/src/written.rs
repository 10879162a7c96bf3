//! Lines that are written: responses and events.

use trl_protocol::{Event, Fault, Reply};

use crate::json_writer;

/// Appends the one response to a request. `id` is JSON.
pub(crate) fn put_response(out: &mut Vec<u8>, id: &str, result: &Result<Reply, Fault>) {
    let start = out.len();
    let written = match result {
        Ok(reply) => {
            put_all(out, &[b"{\"id\":", id.as_bytes(), b",\"ok\":true,\"data\":"]);
            json_writer::put(out, reply)
        }
        Err(fault) => {
            put_all(out, &[b"{\"id\":", id.as_bytes(), b",\"ok\":false,\"error\":"]);
            json_writer::put(out, fault)
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
    let start = out.len();
    put_all(out, &[b"{\"id\":", id.as_bytes(), b",\"event\":\"", event.name().as_bytes(), b"\",\"data\":"]);
    match json_writer::put(out, event) {
        Ok(()) => out.extend_from_slice(b"}\n"),
        Err(error) => {
            tracing::error!(%error, event = event.name(), "an event could not be written");
            out.truncate(start);
        }
    }
}

fn put_all(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::exec::Stream;
    use trl_protocol::mail::MailEvent;
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
        let mail = MailEvent { count: 3, ids: vec!["m-1".to_owned(), "a\"b".to_owned()] };
        let cases = [
            (Event::Mail(&mail), r#"{"id":1,"event":"mail","data":{"count":3,"ids":["m-1","a\"b"]}}"#),
            (
                Event::Started { exec_id, pid: None },
                r#"{"id":1,"event":"started","data":{"exec_id":"e-00000001-2"}}"#,
            ),
            (
                Event::Started { exec_id, pid: Some(7) },
                r#"{"id":1,"event":"started","data":{"exec_id":"e-00000001-2","pid":7}}"#,
            ),
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
