//! The floors: bash and pipes, with nobody in between.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// With as little in its environment as the daemon's sessions have: each variable costs time at the start.
fn bash() -> Command {
    let mut command = Command::new("bash");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub fn spawn_and_wait(arguments: &[&str]) {
    let status = bash().args(arguments).status().expect("bash runs");
    assert!(status.success(), "bash {arguments:?}: {status}");
}

/// A bash that reads its commands from one pipe and answers into another.
#[derive(Debug)]
pub struct BareBash {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    answer: String,
}

impl BareBash {
    pub fn start() -> BareBash {
        let mut child = bash().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        BareBash { child, input, output, answer: String::new() }
    }

    /// A line in, the one line that it prints out.
    pub fn timed(&mut self, line: &str) -> Duration {
        let line = format!("{line}\n");
        self.answer.clear();
        let start = Instant::now();
        self.input.write_all(line.as_bytes()).expect("bash reads");
        self.output.read_line(&mut self.answer).expect("bash answers");
        let took = start.elapsed();
        assert_eq!(self.answer, "x\n");
        took
    }
}

impl Drop for BareBash {
    fn drop(&mut self) {
        // Our own child, and nothing runs in it any more.
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The same pipeline, its output read and thrown away.
pub fn pipeline(command: &str, bytes: u64) -> Duration {
    let start = Instant::now();
    let mut child = bash().args(["-c", command]).stdout(Stdio::piped()).spawn().expect("bash starts");
    let mut pipe = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; 256 * 1024];
    let mut total = 0;
    loop {
        match pipe.read(&mut buffer).expect("the pipe is read") {
            0 => break,
            read => total += read as u64,
        }
    }
    let took = start.elapsed();
    child.wait().expect("its status");
    assert_eq!(total, bytes);
    took
}
