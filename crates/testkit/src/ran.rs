//! What `exec.run` told about a command, checked for its shape as it is read.

use std::fmt;

use serde_json::Value;

#[derive(Clone, PartialEq)]
pub struct Ran {
    pub exec_id: String,
    /// As the reply holds it: text, or base64 if that was asked for.
    pub stdout: String,
    pub stderr: String,
    /// `None` if nobody saw it.
    pub exit_code: Option<i64>,
    pub signal: Option<String>,
    pub timed_out: bool,
    pub cancelled: bool,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    pub working_dir: String,
    pub duration_ms: u64,
    pub notes: Vec<String>,
    pub raw: Value,
}

/// The reply as it came, shortened: what a failed test should show.
impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = self.raw.to_string();
        let shown: String = raw.chars().take(1200).collect();
        write!(f, "{shown}{}", if shown.len() < raw.len() { "…" } else { "" })
    }
}

impl Ran {
    /// Reads `exec.run`'s data; a missing or mistyped field fails the test.
    #[track_caller]
    pub fn read(raw: Value) -> Ran {
        let text = |name: &str| match &raw[name] {
            Value::String(text) => text.clone(),
            other => panic!("`{name}` should be a string, not {other}, in {raw:.500}"),
        };
        let number = |name: &str| {
            raw[name].as_u64().unwrap_or_else(|| panic!("`{name}` should be a whole number in {raw:.500}"))
        };
        let flag = |name: &str| {
            raw[name].as_bool().unwrap_or_else(|| panic!("`{name}` should be true or false in {raw:.500}"))
        };
        assert!(raw.get("exit_code").is_some(), "`exit_code` is always there: {raw:.500}");
        let ran = Ran {
            exec_id: text("exec_id"),
            stdout: text("stdout"),
            stderr: text("stderr"),
            exit_code: raw["exit_code"].as_i64(),
            signal: raw["signal"].as_str().map(str::to_owned),
            timed_out: flag("timed_out"),
            cancelled: flag("cancelled"),
            stdout_bytes: number("stdout_bytes"),
            stderr_bytes: number("stderr_bytes"),
            stdout_truncated: flag("stdout_truncated"),
            stderr_truncated: flag("stderr_truncated"),
            working_dir: text("working_dir"),
            duration_ms: number("duration_ms"),
            notes: notes(&raw),
            raw: raw.clone(),
        };
        assert!(ran.duration_ms > 0, "`duration_ms` is rounded up: {raw:.500}");
        let exact = number("duration_us");
        assert_eq!(ran.duration_ms, exact.div_ceil(1000).max(1), "the two durations agree: {raw:.500}");
        ran
    }

    /// Fails unless the command ended with this status.
    #[track_caller]
    pub fn exits(self, code: i64) -> Ran {
        assert_eq!(self.exit_code, Some(code), "{self:?}");
        self
    }

    /// Fails unless both streams are exactly so.
    #[track_caller]
    pub fn prints(self, stdout: &str, stderr: &str) -> Ran {
        assert_eq!((self.stdout.as_str(), self.stderr.as_str()), (stdout, stderr), "{self:?}");
        self
    }

    /// bash and dash announce the end of a job on the stderr of whatever runs then,
    /// as they do in a terminal. Where that is not the point, it is set aside.
    #[must_use]
    pub fn without_job_notices(mut self) -> Ran {
        let kept = self.stderr.split_inclusive('\n').filter(|line| !is_job_notice(line));
        self.stderr = kept.collect();
        self
    }

    /// Fails if there is anything to be told about the shell.
    #[track_caller]
    pub fn quietly(self) -> Ran {
        assert!(self.notes.is_empty(), "{self:?}");
        self
    }

    pub fn has_note(&self, text: &str) -> bool {
        self.notes.iter().any(|note| note.contains(text))
    }

    /// Fails unless a note says that the shell ended or was replaced.
    #[track_caller]
    pub fn tells_of_the_shell(self) -> Ran {
        assert!(self.has_note("shell"), "a note should say what became of the shell: {self:?}");
        self
    }
}

fn notes(raw: &Value) -> Vec<String> {
    let texts = |list: &Vec<Value>| list.iter().filter_map(|note| note.as_str()).map(str::to_owned).collect();
    raw["notes"].as_array().map(texts).unwrap_or_default()
}

/// `[1]+  Done      sleep 1`, `[2] - Killed  …`.
fn is_job_notice(line: &str) -> bool {
    let Some((number, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let state = rest.trim_start_matches([' ', '+', '-']);
    let known = ["Done", "Exit ", "Killed", "Terminated"].iter().any(|word| state.starts_with(word));
    number.bytes().all(|byte| byte.is_ascii_digit()) && known
}
