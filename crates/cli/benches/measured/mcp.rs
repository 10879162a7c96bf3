//! `trl mcp` as a client's child: a call out, its result in.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

#[derive(Debug)]
pub struct Mcp {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Mcp {
    pub fn start(mut command: Command) -> Mcp {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("trl mcp starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut mcp = Mcp { child, stdin, stdout, line: String::new() };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}});
        mcp.exchange(&format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        ));
        mcp.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        mcp
    }

    fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(line.as_bytes()).expect("trl mcp reads");
    }

    fn exchange(&mut self, line: &str) -> &str {
        self.send(line);
        self.line.clear();
        self.stdout.read_line(&mut self.line).expect("trl mcp answers");
        &self.line
    }

    /// The same command again and again, from the call to its result.
    pub fn timed_run(mut self, command: &str) -> impl FnMut() -> Duration + use<> {
        let params = json!({"name": "run", "arguments": {"command": command}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let line = format!("{call}\n");
        move || {
            let start = Instant::now();
            let answer = self.exchange(&line);
            let took = start.elapsed();
            assert!(answer.contains("[exit code 0,"), "{answer}");
            took
        }
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ended = self.child.wait();
    }
}
