//! The programs that agents live in, as they are: each runs headless or on a terminal, with a model on
//! this machine that says what a script tells it.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

mod claude;
mod codex;
mod opencode;
mod plugin;
mod setup;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use trl_testkit::{Daemon, trl};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where the programs are; installed now if `scripts/test` has not done it.
fn programs() -> PathBuf {
    let output = Command::new(Path::new(ROOT).join("scripts/harnesses")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A model that follows a script, and all that was asked of it.
struct Model {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Model {
    fn new(script: &Value) -> Model {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("script.json"), script.to_string()).unwrap();
        let mut child = Command::new("python3")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/model.py"))
            .args([dir.path().join("script.json"), dir.path().join("asked.jsonl")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Model { child, port: line.trim().parse().unwrap(), dir }
    }

    /// Every request, oldest first.
    fn all(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("asked.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.map(|line| line["body"].clone()).collect()
    }

    /// Every request that offered tools.
    fn asked(&self) -> Vec<Value> {
        self.all().into_iter().filter(|body| !body["tools"].is_null()).collect()
    }

    /// The newest request as text: what the model has before it.
    fn seen(&self) -> String {
        self.asked().last().map(Value::to_string).unwrap_or_default()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// A home for a harness, beside a daemon.
struct Stage {
    daemon: Daemon,
    home: TempDir,
}

impl Stage {
    fn new(daemon: Daemon) -> Stage {
        Stage { daemon, home: tempfile::tempdir().unwrap() }
    }

    /// A program of a harness, with trl on its path.
    fn program(&self, name: &str) -> Command {
        let bin = programs().join("node_modules/.bin");
        let node = Path::new(ROOT).join("target/mcp-clients/venv/bin");
        let ours = trl!().parent().unwrap().to_owned();
        let path =
            format!("{}:{}:{}:/usr/local/bin:/usr/bin:/bin", ours.display(), bin.display(), node.display());
        let mut command = Command::new(bin.join(name));
        command
            .env_clear()
            .envs(self.daemon.client().get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.home.path().join("config"))
            .env("XDG_DATA_HOME", self.home.path().join("data"))
            .env("XDG_CACHE_HOME", self.home.path().join("cache"))
            .env("PATH", path)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .current_dir(self.daemon.work());
        command
    }
}

#[track_caller]
fn succeeds(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}
