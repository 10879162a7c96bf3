//! A raw connection to the daemon: a line out, lines in.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};

/// Nothing that is measured takes this long; a daemon that hangs is told from a slow one.
const GUARD: Duration = Duration::from_secs(60);
const RESPONSE: &[u8] = b"{\"id\":1,\"ok\":";

#[derive(Debug)]
pub struct Wire {
    reader: BufReader<UnixStream>,
    line: String,
}

impl Wire {
    pub fn open(socket: &Path) -> Wire {
        let stream = UnixStream::connect(socket).expect("the daemon listens");
        stream.set_read_timeout(Some(GUARD)).expect("a timeout");
        Wire { reader: BufReader::new(stream), line: String::new() }
    }

    fn send(&mut self, line: &str) {
        self.reader.get_mut().write_all(line.as_bytes()).expect("the daemon reads");
    }

    fn receive(&mut self) -> &str {
        self.line.clear();
        self.reader.read_line(&mut self.line).expect("the daemon answers");
        &self.line
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.send(&request(method, params));
        let answer: Value = serde_json::from_str(self.receive()).expect("a line of JSON");
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer["data"].clone()
    }
}

fn request(method: &str, params: &Value) -> String {
    format!("{}\n", json!({"id": 1, "method": method, "params": params}))
}

/// A session and the connection that it is asked over.
#[derive(Debug)]
pub struct Session {
    wire: Wire,
    id: String,
}

impl Session {
    pub fn create(wire: Wire) -> Session {
        Session::create_with(wire, &json!({}))
    }

    /// With this profile of isolation.
    pub fn create_in(wire: Wire, isolation: &str) -> Session {
        Session::create_with(wire, &json!({ "isolation": isolation }))
    }

    pub fn create_with(wire: Wire, more: &Value) -> Session {
        Session::try_create_with(wire, more).expect("a session")
    }

    /// Or the error.
    pub fn try_create_with(mut wire: Wire, more: &Value) -> Result<Session, Value> {
        let mut params = json!({"shell": "bash"});
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        wire.send(&request(m::SessionCreate::NAME, &params));
        let answer: Value = serde_json::from_str(wire.receive()).expect("a line of JSON");
        match answer["data"]["session_id"].as_str() {
            Some(id) => Ok(Session { wire, id: id.to_owned() }),
            None => Err(answer["error"].clone()),
        }
    }

    /// Leaves a command running.
    pub fn start(&mut self, command: &str) {
        self.wire.call(m::ExecStart::NAME, &json!({"session_id": self.id, "command": command}));
    }

    pub fn destroy_at_once(mut self) {
        self.wire.call(m::SessionDestroy::NAME, &json!({"session_id": self.id, "force": true}));
    }

    pub fn destroy(mut self) -> Wire {
        self.wire.call(m::SessionDestroy::NAME, &json!({"session_id": self.id}));
        self.wire
    }

    /// The host's pid and the shell's.
    pub fn pids(&mut self) -> (i32, i32) {
        let info = self.wire.call(m::SessionInfo::NAME, &json!({"session_id": self.id}));
        let pid = |name: &str| info[name].as_i64().expect("a pid") as i32;
        (pid("host_pid"), pid("pid"))
    }

    pub fn run_line(&self, command: &str) -> String {
        request(m::ExecRun::NAME, &json!({"session_id": self.id, "command": command}))
    }

    pub fn ask_to_run(&mut self, line: &str) {
        self.wire.send(line);
        let answer = self.wire.receive();
        assert!(answer.contains("\"exit_code\":0"), "{answer}");
    }

    pub fn run(&mut self, command: &str) {
        let line = self.run_line(command);
        self.ask_to_run(&line);
    }

    /// The same command again and again, from the request to the response.
    pub fn timed_run(mut self, command: &str) -> impl FnMut() -> Duration + use<> {
        let line = self.run_line(command);
        move || {
            let start = Instant::now();
            self.ask_to_run(&line);
            start.elapsed()
        }
    }

    /// From the request to the first event with output.
    pub fn timed_first_byte(mut self, command: &str) -> impl FnMut() -> Duration + use<> {
        let line = request(m::ExecStream::NAME, &json!({"session_id": self.id, "command": command}));
        move || {
            let start = Instant::now();
            self.wire.send(&line);
            while !self.wire.receive().contains("\"event\":\"stdout\"") {}
            let took = start.elapsed();
            while !self.wire.receive().as_bytes().starts_with(RESPONSE) {}
            took
        }
    }

    /// Everything that a command writes, read as it comes and thrown away.
    pub fn timed_bulk(&mut self, command: &str, bytes: u64) -> Duration {
        let params = json!({"session_id": self.id, "command": command, "timeout_s": 0});
        let line = request(m::ExecStream::NAME, &params);
        let start = Instant::now();
        self.wire.send(&line);
        let response = last_line(self.wire.reader.get_mut());
        let took = start.elapsed();
        assert!(response.contains(&format!("\"stdout_bytes\":{bytes},")), "{response}");
        took
    }
}

/// Reads until the response, which nothing follows: only a chunk's end can be its end.
fn last_line(stream: &mut UnixStream) -> String {
    let mut buffer = vec![0; 256 * 1024];
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let read = stream.read(&mut buffer).expect("the daemon streams");
        assert!(read > 0, "the daemon closed the connection");
        let kept = &buffer[read.saturating_sub(8192)..read];
        tail.drain(..(tail.len() + kept.len()).saturating_sub(8192).min(tail.len()));
        tail.extend_from_slice(kept);
        if let Some(lines) = tail.strip_suffix(b"\n") {
            let last = lines.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
            if last.starts_with(RESPONSE) {
                return String::from_utf8_lossy(last).into_owned();
            }
        }
    }
}
