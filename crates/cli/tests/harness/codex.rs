//! Codex, with trl as an MCP server.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::process::{Command, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::process::{self, Signal, signal};
use trl_testkit::{GUARD, daemon, trl, wait_until};

use super::{Model, Stage, succeeds};

impl Stage {
    fn codex(&self, model: &Model, agent: &str) -> Command {
        let home = self.home.path().join("codex");
        std::fs::create_dir_all(&home).unwrap();
        // Codex hands servers only the variables that are named here.
        let env: Vec<String> = self
            .daemon
            .client()
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.to_owned())))
            .filter(|(name, _)| name.starts_with("TRL_") || name == "HOME" || name.starts_with("XDG_"))
            .map(|(name, value)| format!("{name} = {value:?}\n"))
            .collect();
        let config = format!(
            "model = \"m\"\nmodel_provider = \"here\"\n\
             [model_providers.here]\nname = \"here\"\nbase_url = \"http://127.0.0.1:{}/v1\"\nwire_api = \"responses\"\nenv_key = \"KEY\"\n\
             [mcp_servers.trl]\ncommand = {:?}\nargs = [\"mcp\"]\n[mcp_servers.trl.env]\nTRL_AGENT = {agent:?}\n{}",
            model.port,
            trl!(),
            env.join("")
        );
        std::fs::write(home.join("config.toml"), config).unwrap();
        let mut command = self.program("codex");
        command.env("CODEX_HOME", home).env("KEY", "anything").args(["exec", "--skip-git-repo-check"]);
        command
    }
}

const FREE: &str = "--dangerously-bypass-approvals-and-sandbox";

#[test]
fn a_resumed_session_finds_its_shell_as_it_was() {
    let stage = Stage::new(daemon!());
    let build = json!([
        {"tool": "run", "input": {"command": "cd /usr; x=5"}},
        {"tool": "run", "input": {"command": ":"}},
        {"text": "done"},
    ]);
    let first = Model::new(&build);
    let mut command = stage.codex(&first, "");
    command.args([FREE, "go on"]);
    succeeds(command);
    wait_until("the end of its processes", GUARD, || {
        stage.daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().is_empty()
    });
    let second =
        Model::new(&json!([{"tool": "run", "input": {"command": "pwd; echo $x"}}, {"text": "done"}]));
    let mut command = stage.codex(&second, "");
    command.args(["resume", "--last", FREE, "go on"]);
    succeeds(command);
    assert!(second.seen().contains(r"/usr\n5\n"), "{}", second.seen());
}

#[test]
fn agents_write_to_each_other_under_labels_of_their_own() {
    let stage = Stage::new(daemon!());
    for name in ["ann", "bob"] {
        assert!(stage.daemon.trl(&["agent", "create", name]).status.success());
    }
    let asks = Model::new(
        &json!([{"tool": "send", "input": {"to": "bob", "text": "Is it green?"}}, {"text": "sent"}]),
    );
    let mut command = stage.codex(&asks, "ann");
    command.args([FREE, "go on"]);
    succeeds(command);
    assert!(asks.seen().contains("sent as codex:1"), "{}", asks.seen());
    let script = json!([
        {"tool": "inbox", "input": {"wait_s": 20}},
        {"tool": "send", "input": {"to": "ann", "text": "It is.", "in_reply_to": "{{message (msg-[0-9a-f]+), from ann}}"}},
        {"text": "answered"},
    ]);
    let answers = Model::new(&script);
    let mut command = stage.codex(&answers, "bob");
    command.args([FREE, "go on"]);
    succeeds(command);
    assert!(answers.seen().contains("| Is it green?"), "{}", answers.seen());
    assert!(answers.seen().matches("sent as codex:1").count() == 1, "{}", answers.seen());
}

#[test]
fn a_tool_that_is_not_allowed_runs_nothing() {
    let stage = Stage::new(daemon!());
    let file = stage.daemon.work().join("made");
    let script =
        json!([{"tool": "run", "input": {"command": format!("touch {}", file.display())}}, {"text": "done"}]);
    let model = Model::new(&script);
    let mut command = stage.codex(&model, "");
    command.args(["-c", "approval_policy=\"never\"", "go on"]);
    succeeds(command);
    assert!(model.seen().contains("approval"), "{}", model.seen());
    assert!(!file.exists());
}

#[test]
fn a_killed_harness_leaves_nothing_behind() {
    let stage = Stage::new(daemon!());
    let script =
        json!([{"tool": "run", "input": {"command": "sleep 1235 & echo $! >child; wait"}}, {"text": "done"}]);
    let model = Model::new(&script);
    let mut command = stage.codex(&model, "");
    command.args([FREE, "go on"]);
    let mut harness = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let file = stage.daemon.work().join("child");
    wait_until("its command", GUARD * 5, || {
        std::fs::read_to_string(&file).is_ok_and(|pid| !pid.trim().is_empty())
    });
    let child: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    // The program is a script that runs another.
    for pid in process::descendants(harness.id() as i32).into_iter().chain([harness.id() as i32]) {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name.trim() != "trl" {
            signal(pid, Signal::KILL);
        }
    }
    harness.wait().unwrap();
    assert!(process::ended_within(child, GUARD), "its command runs on");
}
