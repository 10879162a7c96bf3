//! Lines of the wire: requests as they are written, events and responses as they are read.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use trl_protocol::event::{Base64, GapEvent, OutputEvent, QueuedEvent, StartedEvent, WaitingEvent};
use trl_protocol::exec::Stream;
use trl_protocol::{Code, ExecId, Fault};

/// An event of `exec.stream` or `exec.attach`, as a client keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Started {
        exec_id: ExecId,
        /// Of a background command.
        pid: Option<u32>,
    },
    /// It waits for its turn.
    Queued { exec_id: ExecId },
    /// Bytes exactly as the command wrote them.
    Output { stream: Stream, offset: u64, bytes: Vec<u8> },
    /// Bytes between the two offsets are no longer kept.
    Gap { stream: Stream, from: u64, to: u64 },
    /// The command reads from its terminal.
    Waiting { exec_id: ExecId, prompt: String },
}

#[derive(Serialize)]
struct RequestLine<'a, P> {
    id: &'a str,
    method: &'a str,
    params: P,
}

pub(crate) fn request(id: &str, method: &str, params: impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(&RequestLine { id, method, params })?;
    line.push(b'\n');
    Ok(line)
}

/// A line as the daemon wrote it, its payload still unread.
#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    event: Option<Cow<'a, str>>,
    #[serde(default)]
    ok: bool,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// What a line means to the request that waits for it.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    Event { name: Cow<'a, str>, data: &'a str },
    Done(&'a str),
    Failed(Fault),
}

/// `None`: the line answers another request.
pub(crate) fn read<'a>(line: &'a [u8], id: &str) -> Result<Option<Incoming<'a>>, String> {
    let raw: RawLine<'a> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    // A fault without an id answers a line that the daemon could not read: with one
    // request at a time on a connection, that line was ours.
    if raw.id.as_deref().is_some_and(|theirs| theirs != id) {
        return Ok(None);
    }
    let data = raw.data.map_or("null", RawValue::get);
    Ok(Some(match (raw.event, raw.ok) {
        (Some(name), _) => Incoming::Event { name, data },
        (None, true) => Incoming::Done(data),
        (None, false) => Incoming::Failed(fault(raw.error.map_or("null", RawValue::get))),
    }))
}

/// A newer daemon may have codes that we do not know; its message still counts.
fn fault(json: &str) -> Fault {
    if let Ok(fault) = serde_json::from_str(json) {
        return fault;
    }
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let message = value.get("message").and_then(Value::as_str).unwrap_or("the daemon gave no reason");
    let code = value.get("code").and_then(Value::as_str).unwrap_or("no code");
    Fault::new(Code::InternalError, format!("{message} [{code}]")).with_details(value)
}

/// Reads an event of `exec.stream` or `exec.attach`; `None` for one that this version does not know.
pub(crate) fn event(name: &str, data: &str) -> Result<Option<Event>, String> {
    fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, String> {
        serde_json::from_str(data).map_err(|error| error.to_string())
    }
    let event = match name {
        "started" => {
            let StartedEvent { exec_id, pid } = parse(data)?;
            Event::Started { exec_id, pid }
        }
        "queued" => {
            let QueuedEvent { exec_id } = parse(data)?;
            Event::Queued { exec_id }
        }
        "stdout" => output(Stream::Stdout, parse(data)?)?,
        "stderr" => output(Stream::Stderr, parse(data)?)?,
        "gap" => {
            let gap: GapEvent = parse(data)?;
            Event::Gap { stream: gap.stream, from: gap.from, to: gap.to }
        }
        "waiting" => {
            let waiting: WaitingEvent<'_> = parse(data)?;
            Event::Waiting { exec_id: waiting.exec_id, prompt: waiting.prompt.into_owned() }
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}

fn output(stream: Stream, data: OutputEvent<'_>) -> Result<Event, String> {
    let bytes = match (data.base64, data.text) {
        (Some(Base64(bytes)), _) => bytes.into_owned(),
        (None, Some(text)) => text.into_owned().into_bytes(),
        (None, None) => return Err("output without text or base64".to_owned()),
    };
    Ok(Event::Output { stream, offset: data.offset, bytes })
}

impl Event {
    /// As it is on the wire: output is text where it is UTF-8, else base64.
    pub fn on_wire(&self) -> trl_protocol::Event<'_> {
        use trl_protocol::Event as Wire;
        match self {
            Event::Started { exec_id, pid } => Wire::Started { exec_id: *exec_id, pid: *pid },
            Event::Queued { exec_id } => Wire::Queued { exec_id: *exec_id },
            Event::Output { stream, offset, bytes } => match std::str::from_utf8(bytes) {
                Ok(text) => Wire::Text { stream: *stream, offset: *offset, text },
                Err(_) => Wire::Bytes { stream: *stream, offset: *offset, bytes },
            },
            Event::Gap { stream, from, to } => Wire::Gap { stream: *stream, from: *from, to: *to },
            Event::Waiting { exec_id, prompt } => Wire::Waiting { exec_id: *exec_id, prompt },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_compact_line() {
        let line = request("c-1", "exec.run", serde_json::json!({"command": "a\nb"})).unwrap();
        assert_eq!(line, b"{\"id\":\"c-1\",\"method\":\"exec.run\",\"params\":{\"command\":\"a\\nb\"}}\n");
    }

    #[test]
    fn lines_are_told_apart() {
        let read = |line: &'static str| read(line.as_bytes(), "a").unwrap();
        assert!(matches!(read(r#"{"id":"a","ok":true,"data":{"x":1}}"#), Some(Incoming::Done(r#"{"x":1}"#))));
        assert!(read(r#"{"id":"b","ok":true,"data":{}}"#).is_none());
        assert!(matches!(
            read(r#"{"id":"a","event":"started","data":{}}"#),
            Some(Incoming::Event { ref name, .. }) if name == "started"
        ));
        assert!(matches!(
            read(r#"{"id":null,"ok":false,"error":{"code":"PARSE_ERROR","message":"m"}}"#),
            Some(Incoming::Failed(Fault { code: Code::ParseError, .. }))
        ));
    }

    #[test]
    fn a_code_from_the_future_keeps_its_message() {
        let read = read(br#"{"id":"a","ok":false,"error":{"code":"NEW","message":"why"}}"#, "a").unwrap();
        assert!(matches!(read, Some(Incoming::Failed(ref fault)) if fault.message == "why [NEW]"));
    }

    #[test]
    fn output_is_exact_and_unknown_events_pass_by() {
        assert_eq!(
            event("stderr", r#"{"base64":"AP8=","offset":5}"#).unwrap(),
            Some(Event::Output { stream: Stream::Stderr, offset: 5, bytes: vec![0, 255] })
        );
        assert_eq!(event("novelty", "{}").unwrap(), None);
        assert!(event("stdout", r#"{"offset":5}"#).is_err());
    }
}
