//! One raw connection to the daemon's Unix socket: bytes out, lines in.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::GUARD;
use crate::ran::Ran;

/// An event of a streaming request.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: String,
    pub data: Value,
    pub at: Instant,
}

/// The one response to a request, and the events that came before it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub events: Vec<Event>,
    /// `data`, or `error`.
    pub result: Result<Value, Value>,
}

impl Answer {
    /// The data of an answer that must be a success.
    #[track_caller]
    pub fn data(&self) -> Value {
        match &self.result {
            Ok(data) => data.clone(),
            Err(error) => panic!("this should have succeeded: {error}"),
        }
    }

    /// The answer to `exec.run`.
    #[track_caller]
    pub fn ran(&self) -> Ran {
        Ran::read(self.data())
    }

    /// Fails unless the answer is an error with this code.
    #[track_caller]
    pub fn failed(&self, code: &str) -> Value {
        match &self.result {
            Ok(data) => panic!("this should be {code}, but: {data:.500}"),
            Err(error) => {
                assert_eq!(error["code"], code, "{error}");
                error.clone()
            }
        }
    }

    /// All bytes of one stream, after checking that offsets leave no gap and repeat nothing.
    #[track_caller]
    pub fn output_from(&self, stream: &str, start: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for event in self.events.iter().filter(|event| event.name == stream) {
            let offset = event.data["offset"].as_u64().expect("an offset");
            assert_eq!(offset, start + bytes.len() as u64, "{stream}: a gap or a repeat");
            let part = event_bytes(&event.data);
            assert!(!part.is_empty(), "{stream}: an empty event says nothing");
            bytes.extend(part);
        }
        bytes
    }

    #[track_caller]
    pub fn output(&self, stream: &str) -> Vec<u8> {
        self.output_from(stream, 0)
    }
}

/// The bytes of an output event or an `exec.output` reply, in either encoding.
#[track_caller]
pub fn event_bytes(data: &Value) -> Vec<u8> {
    use base64::Engine as _;
    match (data["text"].as_str(), data["base64"].as_str()) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(encoded)) => {
            base64::engine::general_purpose::STANDARD.decode(encoded).expect("well-formed base64")
        }
        _ => panic!("neither text nor base64, or both: {data}"),
    }
}

#[derive(Debug)]
pub struct Connection {
    socket: UnixStream,
    received: Vec<u8>,
    /// How much of `received` is known to hold no newline.
    searched: usize,
    /// Lines that belong to other requests than the one waited for.
    others: VecDeque<(Value, Instant)>,
    next_id: u64,
    guard: Duration,
}

impl Connection {
    pub fn open(path: &Path) -> std::io::Result<Connection> {
        Ok(Connection::over(UnixStream::connect(path)?))
    }

    pub fn over(socket: UnixStream) -> Connection {
        Connection {
            socket,
            received: Vec::new(),
            searched: 0,
            others: VecDeque::new(),
            next_id: 1,
            guard: GUARD,
        }
    }

    /// How long one answer may take before the test counts as hung.
    pub fn set_guard(&mut self, guard: Duration) {
        self.guard = guard;
    }

    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the daemon takes what is sent");
    }

    #[track_caller]
    pub fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// The next line, whatever request it answers; `None` when the daemon closed the connection.
    #[track_caller]
    pub fn next_line(&mut self) -> Option<Value> {
        if let Some((line, _)) = self.others.pop_front() {
            return Some(line);
        }
        let line = self.read_line(Instant::now() + self.guard)?;
        Some(parse(&line))
    }

    /// The next line exactly as it was written, without its newline.
    #[track_caller]
    pub fn next_raw_line(&mut self) -> Option<String> {
        assert!(self.others.is_empty(), "raw lines and calls do not mix");
        let line = self.read_line(Instant::now() + self.guard)?;
        Some(String::from_utf8(line).expect("a line is UTF-8"))
    }

    #[track_caller]
    fn read_line(&mut self, end: Instant) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.received[self.searched..].iter().position(|&byte| byte == b'\n') {
                let rest = self.received.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.received, rest);
                line.pop();
                self.searched = 0;
                return Some(line);
            }
            self.searched = self.received.len();
            if !self.receive(end) {
                // A daemon that was killed may leave half a line.
                self.received.clear();
                return None;
            }
        }
    }

    /// Takes what has arrived; false at the end of the connection.
    #[track_caller]
    fn receive(&mut self, end: Instant) -> bool {
        let mut chunk = vec![0; 256 * 1024];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no answer within {:?}", self.guard);
            self.socket.set_read_timeout(Some(left)).expect("a read timeout");
            match self.socket.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
                    return true;
                }
                Err(error) => match error.kind() {
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return false,
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => panic!("reading from the daemon: {error}"),
                },
            }
        }
    }

    /// Sends a request without waiting; [`Connection::finish`] takes its answer.
    #[track_caller]
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send_line(&json!({"id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The next event or response of this request.
    #[track_caller]
    pub fn next_of(&mut self, id: u64) -> (Value, Instant) {
        if let Some(at) = self.others.iter().position(|(line, _)| line["id"] == id) {
            return self.others.remove(at).expect("it is there");
        }
        let end = Instant::now() + self.guard;
        loop {
            let line = self.read_line(end).expect("an answer before the end of the connection");
            let line = parse(&line);
            if line["id"] == id {
                return (line, Instant::now());
            }
            self.others.push_back((line, Instant::now()));
        }
    }

    /// The next event of a streaming request; fails if its response comes first.
    #[track_caller]
    pub fn event(&mut self, id: u64) -> Event {
        let (line, at) = self.next_of(id);
        as_event(&line, at).unwrap_or_else(|| panic!("an event was due, not the response: {line}"))
    }

    /// Reads events until the text of `stream` contains `text`; returns all that came.
    #[track_caller]
    pub fn events_until(&mut self, id: u64, stream: &str, text: &str) -> Vec<Event> {
        let mut events = Vec::new();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let event = self.event(id);
            if event.name == stream {
                seen.extend(event_bytes(&event.data));
            }
            events.push(event);
        }
        events
    }

    /// Waits for a request's response.
    #[track_caller]
    pub fn finish(&mut self, id: u64) -> Answer {
        let mut events = Vec::new();
        loop {
            let (line, at) = self.next_of(id);
            match as_event(&line, at) {
                Some(event) => events.push(event),
                None => return Answer { events, result: as_result(&line) },
            }
        }
    }

    /// The response to a request, or `None` if the connection ends without one.
    #[track_caller]
    pub fn finish_or_end(&mut self, id: u64) -> Option<Answer> {
        let mut events = Vec::new();
        loop {
            let line = self.next_line()?;
            match as_event(&line, Instant::now()) {
                _ if line["id"] != id => {}
                Some(event) => events.push(event),
                None => return Some(Answer { events, result: as_result(&line) }),
            }
        }
    }

    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        let answer = self.finish(id);
        assert!(answer.events.is_empty(), "{method} is no stream: {:?}", answer.events);
        answer.result
    }

    /// A call to a daemon that may die before it answers: `None` then.
    #[track_caller]
    pub fn try_call(&mut self, method: &str, params: Value) -> Option<Result<Value, Value>> {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({"id": id, "method": method, "params": params}).to_string() + "\n";
        self.socket.write_all(line.as_bytes()).ok()?;
        Some(self.finish_or_end(id)?.result)
    }

    /// A call that must succeed.
    #[track_caller]
    pub fn ok(&mut self, method: &str, params: Value) -> Value {
        let shown = params.to_string();
        self.call(method, params).unwrap_or_else(|error| panic!("{method} {shown:.300}: {error}"))
    }

    /// A call that must fail with this code; returns the error's message.
    #[track_caller]
    pub fn fails(&mut self, method: &str, params: Value, code: &str) -> String {
        let shown = params.to_string();
        match self.call(method, params) {
            Ok(data) => panic!("{method} {shown:.300} should be {code}, but: {data:.300}"),
            Err(error) => {
                assert_eq!(error["code"], code, "{method} {shown:.300}: {error}");
                error["message"].as_str().expect("a message").to_owned()
            }
        }
    }

    #[track_caller]
    pub fn stream(&mut self, method: &str, params: Value) -> Answer {
        let id = self.begin(method, params);
        self.finish(id)
    }
}

#[track_caller]
fn parse(line: &[u8]) -> Value {
    let text = std::str::from_utf8(line).expect("a line is UTF-8");
    let value: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON ({error}): {text:.300}"));
    assert!(value.is_object(), "a line is one object: {text:.300}");
    value
}

fn as_event(line: &Value, at: Instant) -> Option<Event> {
    let name = line.get("event")?.as_str()?.to_owned();
    Some(Event { name, data: line["data"].clone(), at })
}

#[track_caller]
fn as_result(line: &Value) -> Result<Value, Value> {
    match line["ok"].as_bool() {
        Some(true) => {
            assert!(line["data"].is_object() && line.get("error").is_none(), "{line:.300}");
            Ok(line["data"].clone())
        }
        Some(false) => {
            let error = &line["error"];
            assert!(error["code"].is_string() && error["message"].is_string(), "{line:.300}");
            Err(error.clone())
        }
        None => panic!("neither a response nor an event: {line:.300}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Connection::over(ours), theirs)
    }

    #[test]
    fn answers_find_their_requests_in_any_order() {
        let (mut connection, mut daemon) = pair();
        let first = connection.begin("a", json!({}));
        let second = connection.begin("b", json!({}));
        daemon
            .write_all(
                br#"{"id":2,"event":"stdout","data":{"text":"x","offset":0}}
{"id":2,"ok":true,"data":{"n":2}}
{"id":1,"ok":false,"error":{"code":"C","message":"m"}}
"#,
            )
            .unwrap();
        assert_eq!(connection.finish(first).result.unwrap_err()["code"], "C");
        let answer = connection.finish(second);
        assert_eq!(answer.output("stdout"), b"x");
        assert_eq!(answer.result.unwrap()["n"], 2);
    }

    #[test]
    fn the_end_of_a_connection_is_seen() {
        let (mut connection, daemon) = pair();
        drop(daemon);
        assert_eq!(connection.next_line(), None);
    }

    #[test]
    #[should_panic(expected = "a gap or a repeat")]
    fn a_repeat_is_noticed() {
        let event = |offset: u64| Event {
            name: "stdout".into(),
            data: json!({"text": "ab", "offset": offset}),
            at: Instant::now(),
        };
        Answer { events: vec![event(0), event(1)], result: Ok(json!({})) }.output("stdout");
    }
}
