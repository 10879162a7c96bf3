//! One session and its own connection, for tests that mostly run commands.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::connection::{Answer, Connection, event_bytes};
use crate::process;
use crate::ran::Ran;
use crate::shell::Shell;

#[derive(Debug)]
pub struct Session {
    pub shell: Shell,
    pub id: String,
    /// Where the session began; the test's own directory.
    pub dir: PathBuf,
    pub connection: Connection,
    /// What `session.create` told.
    pub created: Value,
}

impl Session {
    #[track_caller]
    pub fn create(mut connection: Connection, shell: Shell, dir: PathBuf, params: Value) -> Session {
        let mut all = json!({"shell": shell.name(), "working_dir": dir});
        merge(&mut all, params);
        let created = connection.ok("session.create", all);
        let id = created["session_id"].as_str().expect("a session id").to_owned();
        Session { shell, id, dir, connection, created }
    }

    /// Params that name this session, with more of them.
    pub fn params(&self, more: Value) -> Value {
        let mut all = json!({"session_id": self.id});
        merge(&mut all, more);
        all
    }

    #[track_caller]
    pub fn run(&mut self, command: &str) -> Ran {
        self.run_with(json!({"command": command}))
    }

    #[track_caller]
    pub fn run_with(&mut self, params: Value) -> Ran {
        let params = self.params(params);
        Ran::read(self.connection.ok("exec.run", params))
    }

    /// Runs a command that must succeed, and returns its stdout.
    #[track_caller]
    pub fn ok(&mut self, command: &str) -> String {
        self.run(command).exits(0).stdout
    }

    /// Runs a command that must be refused.
    #[track_caller]
    pub fn refused(&mut self, params: Value, code: &str) -> String {
        let params = self.params(params);
        self.connection.fails("exec.run", params, code)
    }

    #[track_caller]
    pub fn stream(&mut self, params: Value) -> Answer {
        let params = self.params(params);
        self.connection.stream("exec.stream", params)
    }

    /// Begins a streamed command and waits until it printed `text` on stdout.
    /// Returns the request's id and the command's.
    #[track_caller]
    pub fn stream_until(&mut self, params: Value, text: &str) -> (u64, String) {
        let params = self.params(params);
        let request = self.connection.begin("exec.stream", params);
        let started = self.connection.event(request);
        assert_eq!(started.name, "started");
        let exec_id = started.data["exec_id"].as_str().expect("an exec id").to_owned();
        self.connection.events_until(request, "stdout", text);
        (request, exec_id)
    }

    /// Starts a command without waiting for it; returns its id.
    #[track_caller]
    pub fn start(&mut self, params: Value) -> String {
        let params = self.params(params);
        let started = self.connection.ok("exec.start", params);
        started["exec_id"].as_str().expect("an exec id").to_owned()
    }

    /// Waits for the end of a command by attaching to it.
    #[track_caller]
    pub fn attach(&mut self, exec_id: &str) -> Answer {
        self.connection.stream("exec.attach", json!({"exec_id": exec_id, "encoding": "base64"}))
    }

    #[track_caller]
    pub fn exec_info(&mut self, exec_id: &str) -> Value {
        self.connection.ok("exec.info", json!({"exec_id": exec_id}))
    }

    /// All kept bytes of one stream, read in ranges.
    #[track_caller]
    pub fn output_of(&mut self, exec_id: &str, stream: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let params =
                json!({"exec_id": exec_id, "stream": stream, "offset": bytes.len(), "encoding": "base64"});
            let range = self.connection.ok("exec.output", params);
            assert_eq!(range["offset"], bytes.len() as u64, "nothing is dropped here: {exec_id} {stream}");
            let part = event_bytes(&range);
            if part.is_empty() {
                assert_eq!(range["total_bytes"], bytes.len() as u64);
                return bytes;
            }
            bytes.extend(part);
            assert_eq!(range["next_offset"], bytes.len() as u64);
        }
    }

    #[track_caller]
    pub fn info(&mut self) -> Value {
        let params = self.params(json!({}));
        self.connection.ok("session.info", params)
    }

    /// The shell's pid, now.
    #[track_caller]
    pub fn pid(&mut self) -> i32 {
        self.info()["pid"].as_i64().expect("a living shell has a pid") as i32
    }

    #[track_caller]
    pub fn host_pid(&mut self) -> i32 {
        self.info()["host_pid"].as_i64().expect("a living session has a host") as i32
    }

    #[track_caller]
    pub fn destroy(&mut self) -> Value {
        let params = self.params(json!({}));
        self.connection.ok("session.destroy", params)
    }

    /// Puts state of every portable kind into the shell, for [`Session::keeps_state`].
    #[track_caller]
    pub fn put_state(&mut self) {
        self.ok("mkdir -p kept && cd kept && plain='a  b' && EXPORTED=out && export EXPORTED");
        self.ok("greet() { echo \"hello $1\"; }");
        self.ok("umask 027");
    }

    /// The living shell still has what [`Session::put_state`] put there, and still answers.
    #[track_caller]
    pub fn keeps_state(&mut self) {
        let dir = self.dir.join("kept");
        let expected = format!("{} a  b out 027\nhello you\n", dir.display());
        let script = "echo \"$PWD $plain $(sh -c 'echo $EXPORTED') $(umask | sed 's/^0*/0/')\"; greet you";
        self.run(script).exits(0).without_job_notices().prints(&expected, "");
    }

    /// A new shell has what [`Session::put_state`] put into the old one, as far as this shell can tell.
    #[track_caller]
    pub fn has_state_back(&mut self) {
        if self.shell.can_list_functions() {
            return self.keeps_state();
        }
        self.ok("greet() { echo \"hello $1\"; }");
        self.keeps_state();
    }

    /// The session answers as if nothing had happened.
    #[track_caller]
    pub fn survives(&mut self) {
        self.run("echo ok").exits(0).without_job_notices().prints("ok\n", "").quietly();
    }

    /// Kills this session's host, as a crash would. The daemon must then tell that it is lost.
    #[track_caller]
    pub fn kill_host(&mut self) {
        let host = self.host_pid();
        process::signal(host, Signal::KILL);
        process::assert_ends("the host", host);
    }
}

/// Adds the fields of `more` to `base`.
#[track_caller]
pub(crate) fn merge(base: &mut Value, more: Value) {
    let (Value::Object(base), Value::Object(more)) = (base, more) else { panic!("params are objects") };
    base.extend(more);
}
