//! An MCP client by hand: a line out, lines in, and nothing hidden.

#![expect(clippy::expect_used, clippy::panic, reason = "what the tests share is test code too")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, process};

use super::conforms::violation;

pub struct Mcp {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    /// By tool, what its structured results look like; empty for a client that gets text alone.
    schemas: HashMap<String, Value>,
    /// What came that nobody has asked for yet: notifications, and answers to other calls.
    pub notifications: Vec<Value>,
}

impl Mcp {
    /// A program that is a client of this daemon: its results have fields, and each is held against its schema.
    pub fn of(daemon: &Daemon, args: &[&str]) -> Mcp {
        let mut mcp = Mcp::reader(daemon, &[&["--structured"], args].concat());
        mcp.learn_schemas();
        mcp
    }

    /// A client as models have it: text alone.
    pub fn reader(daemon: &Daemon, args: &[&str]) -> Mcp {
        let mut command = daemon.client();
        command.arg("mcp").args(args);
        let mut mcp = Mcp::start(command);
        mcp.hello("tester");
        mcp
    }

    pub fn learn_schemas(&mut self) {
        let tools = self.request("tools/list", json!({}))["result"]["tools"].clone();
        for tool in tools.as_array().expect("tools") {
            let name = tool["name"].as_str().expect("a name").to_owned();
            assert!(tool["outputSchema"].is_object(), "{name} has no output schema");
            self.schemas.insert(name, tool["outputSchema"].clone());
        }
    }

    pub fn start(mut command: Command) -> Mcp {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("trl mcp starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Mcp { child, stdin, stdout, next_id: 1, schemas: HashMap::new(), notifications: Vec::new() }
    }

    pub fn hello(&mut self, name: &str) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": name, "version": "1"},
        });
        let hello = self.request("initialize", params);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        hello["result"].clone()
    }

    pub fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("trl mcp reads");
    }

    /// The next line, which must be JSON-RPC: nothing else is ever printed.
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    pub fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Answers come in any order: one that came while another was waited for has been kept.
    pub fn answer_to(&mut self, id: u64) -> Value {
        if let Some(at) = self.notifications.iter().position(|message| message["id"] == id) {
            return self.notifications.remove(at);
        }
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer_to(id)
    }

    pub fn tools(&mut self) -> Vec<String> {
        let tools = self.request("tools/list", json!({}))["result"]["tools"].clone();
        let names = tools.as_array().expect("tools").iter();
        names.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// The result of a tool, whatever it is; one with fields conforms to the tool's schema.
    #[track_caller]
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let result =
            self.request("tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone();
        if let Some(schema) = self.schemas.get(tool) {
            assert_eq!(violation(schema, &result["structuredContent"]), None, "{tool}: {result}");
        }
        result
    }

    /// The result of a tool that does what it is asked.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result
    }

    /// Only its fields.
    #[track_caller]
    pub fn fields(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments)["structuredContent"].clone()
    }

    /// The fault's code of a tool that refuses.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let (code, _) = text.split_once(": ").expect("a code");
        if !self.schemas.is_empty() {
            assert_eq!(result["structuredContent"]["error"]["code"], code);
        }
        code.to_owned()
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Ends as a client in good order does: stdin is closed, and the server leaves.
    pub fn close(mut self) {
        drop(self.stdin.take());
        assert!(process::ended_within(self.pid(), GUARD), "trl mcp does not end with its stdin");
        assert!(self.child.wait().expect("its status").success());
    }

    pub fn kill(mut self) {
        self.child.kill().expect("a signal to our own child");
        self.child.wait().expect("its status");
    }
}

pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("a text")
}

impl Drop for Mcp {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !process::ended_within(self.pid(), GUARD) {
            let _already_gone = self.child.kill();
        }
        let _waited = self.child.wait();
    }
}
