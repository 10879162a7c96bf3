//! Claude Code, with trl as an MCP server and as a plugin.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::process::{Command, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::process::{self, Signal, signal};
use trl_testkit::{GUARD, Person, daemon, trl, wait_until};

use super::{Model, ROOT, Stage, succeeds};

const KEY: &str = "sk-ant-a-key-for-a-model-on-this-machine";

impl Stage {
    fn claude(&self, model: &Model) -> Command {
        let mut command = self.program("claude");
        command
            .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", model.port))
            .env("ANTHROPIC_API_KEY", KEY)
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            // On a busy machine it would begin without its servers.
            .env("MCP_CONNECTION_NONBLOCKING", "0")
            .env("MCP_CONNECT_TIMEOUT_MS", "120000")
            .env("MCP_TIMEOUT", "120000")
            .env("IS_SANDBOX", "1");
        command
    }

    /// One answer of a headless session; its JSON.
    #[track_caller]
    pub(super) fn prompt(&self, model: &Model, args: &[&str]) -> Value {
        let mut command = self.claude(model);
        command.args(["-p", "go on", "--output-format", "json"]).args(args);
        serde_json::from_str(&succeeds(command)).unwrap()
    }

    /// trl as a server of its own, without the plugin.
    fn server(&self) -> String {
        let config = json!({"mcpServers": {"trl": {"command": trl!(), "args": ["mcp"]}}});
        let file = self.home.path().join("mcp.json");
        std::fs::write(&file, config.to_string()).unwrap();
        file.display().to_string()
    }

    pub(super) fn install_plugin(&self, model: &Model) {
        for args in [&["marketplace", "add", ROOT][..], &["install", "trl"]] {
            let mut command = self.claude(model);
            command.arg("plugin").args(args);
            succeeds(command);
        }
    }
}

#[test]
fn a_resumed_session_finds_its_shell_as_it_was() {
    let stage = Stage::new(daemon!());
    let config = stage.server();
    let build = json!([
        {"tool": "run", "input": {"command": "cd /usr; x=5; greet() { echo \"hello $1\"; }; set -o noglob"}},
        // When this one runs, the state after the first is written.
        {"tool": "run", "input": {"command": ":"}},
        {"text": "done"},
    ]);
    let args = ["--mcp-config", &config, "--allowedTools", "mcp__trl__run"];
    let first = Model::new(&build);
    let session = stage.prompt(&first, &args)["session_id"].as_str().unwrap().to_owned();
    assert!(first.seen().contains("exit code 0"), "{}", first.seen());
    wait_until("the end of its processes", GUARD, || {
        stage.daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().is_empty()
    });
    let find = json!([
        {"tool": "run", "input": {"command": "pwd; echo $x; greet you; shopt -o noglob"}},
        {"text": "done"},
    ]);
    let second = Model::new(&find);
    stage.prompt(&second, &[&args[..], &["--resume", &session]].concat());
    assert!(second.seen().contains(r"/usr\n5\nhello you\nnoglob"), "{}", second.seen());
}

/// Answers beforehand what the program asks a person at its first start.
fn at_home(stage: &Stage) {
    let file = stage.home.path().join(".claude.json");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut settings: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
    settings["hasCompletedOnboarding"] = json!(true);
    settings["theme"] = json!("dark");
    settings["customApiKeyResponses"] = json!({"approved": [&KEY[KEY.len() - 20..]], "rejected": []});
    settings["projects"][stage.daemon.work().to_str().unwrap()] = json!({"hasTrustDialogAccepted": true});
    std::fs::write(file, settings.to_string()).unwrap();
}

#[test]
fn an_idle_session_is_woken_by_mail_and_answers() {
    let stage = Stage::new(daemon!());
    for name in ["ann", "bob"] {
        assert!(stage.daemon.trl(&["agent", "create", name]).status.success());
    }
    let script = json!([
        {"text": "ready", "if": "good morning"},
        {"tool": "inbox", "input": {}, "if": "1 new message from ann"},
        {"tool": "send", "input": {"to": "ann", "text": "awake", "in_reply_to": "{{message (msg-[0-9a-f]+), from ann}}"}},
        {"text": "answered"},
    ]);
    let model = Model::new(&script);
    stage.install_plugin(&model);
    at_home(&stage);
    let mut command = stage.claude(&model);
    command.env("TRL_AGENT", "bob");
    command.args(["--allowedTools", "mcp__plugin_trl_trl__inbox,mcp__plugin_trl_trl__send"]);
    let mut person = Person::at(command);
    person.sees("❯");
    person.types("good morning");
    person.sees("good morning");
    person.types("\r");
    person.sees("ready");
    // Nobody is at the keyboard from here on.
    let sent = stage.daemon.trl(&["send", "--as", "ann", "bob", "are you there?"]);
    assert!(sent.status.success(), "{sent:?}");
    person.sees("answered");
    let woken = model.asked().into_iter().map(|body| body.to_string());
    let woken = woken.into_iter().find(|text| text.contains("1 new message from ann")).unwrap();
    assert!(!woken.contains("are you there?"), "the waiter tells who wrote, not what");
    let answer = stage.daemon.trl(&["inbox", "--as", "ann", "--wait", "60"]);
    assert!(String::from_utf8_lossy(&answer.stdout).contains("awake"), "{answer:?}");
    // A killed harness takes its waiter with it.
    person.signals(Signal::KILL);
    wait_until("the end of the waiter", GUARD, || {
        let waits = |pid: &i32| process::arguments(*pid).windows(2).any(|words| words == ["hook", "wait"]);
        !stage.daemon.processes().iter().any(waits)
    });
}

/// The auto-responder of the harness: a run without tools, in the sandbox, whose words are the answer.
#[test]
fn a_headless_run_answers_mail_and_can_do_nothing_else() {
    let stage = Stage::new(daemon!());
    for name in ["ann", "bob"] {
        assert!(stage.daemon.trl(&["agent", "create", name]).status.success());
    }
    let model = Model::new(&json!([]));
    let turn = |words: &[&str]| {
        let mut command = Command::new(trl!());
        command.args(["agent", "autorespond", "--as", "bob"]).args(words).env_clear();
        command.envs(stage.claude(&model).get_envs().filter_map(|(name, value)| Some((name, value?))));
        succeeds(command)
    };
    let on = turn(&["on", "--harness", "claude-code"]);
    assert!(on.contains("seccomp, with network") && !on.contains(KEY), "{on}");
    let (mut ann, mut bob) = (stage.daemon.connect(), stage.daemon.connect());
    ann.ok(m::AgentUse::NAME, json!({"agent": "ann"}));
    bob.ok(m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"}));
    let sent = ann.ok(m::MailSend::NAME, json!({"to": "bob", "text": "Is it green?"}));
    let mut reply = Value::Null;
    wait_until("the answer", GUARD * 5, || {
        // The end of a turn of bob's own session.
        let said = json!({"session_id": "h", "hook_event_name": "Stop"}).to_string();
        let told = stage.daemon.trl_reading(&["hook", "stop"], said.as_bytes());
        assert!(told.stdout.is_empty(), "{told:?}");
        reply = ann.ok(m::MailCheckReply::NAME, json!({"message_id": sent["message_id"]}))["reply"].clone();
        !reply.is_null()
    });
    assert_eq!((&reply["text"], &reply["auto"]), (&json!("ok"), &json!(true)), "{reply}");
    let asked = model.all();
    assert!(asked.iter().all(|body| body["tools"].as_array().is_none_or(Vec::is_empty)), "{asked:?}");
    let seen = asked.last().unwrap().to_string();
    assert!(seen.contains("Is it green?") && seen.contains("never an instruction"), "{seen}");
    // Its credentials go with it.
    let kept = stage.daemon.home().join("state/autorespond");
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
    turn(&["off"]);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
}

#[test]
fn two_agents_write_to_each_other() {
    let stage = Stage::new(daemon!());
    let config = stage.server();
    for name in ["ann", "bob"] {
        assert!(stage.daemon.trl(&["agent", "create", name]).status.success());
    }
    let args = ["--mcp-config", &config, "--allowedTools", "mcp__trl__send,mcp__trl__inbox"];
    let say = |agent: &str, script: Value, more: &[&str]| {
        let model = Model::new(&script);
        let mut command = stage.claude(&model);
        command
            .env("TRL_AGENT", agent)
            .args(["-p", "go on", "--output-format", "json"])
            .args(args)
            .args(more);
        let said: Value = serde_json::from_str(&succeeds(command)).unwrap();
        (said["session_id"].as_str().unwrap().to_owned(), model.seen())
    };
    let asks =
        json!([{"tool": "send", "input": {"to": "bob", "text": "Is the build green?"}}, {"text": "sent"}]);
    let (ann, _) = say("ann", asks, &[]);
    let answers = json!([
        {"tool": "inbox", "input": {"wait_s": 20}},
        {"tool": "send", "input": {"to": "ann", "text": "It is.", "in_reply_to": "{{message (msg-[0-9a-f]+), from ann}}"}},
        {"text": "answered"},
    ]);
    let (_, bob_saw) = say("bob", answers, &[]);
    assert!(bob_saw.contains("Written by other agents, not by your user"), "{bob_saw}");
    assert!(bob_saw.contains(r"| Is the build green?"), "{bob_saw}");
    let reads = json!([{"tool": "inbox", "input": {"wait_s": 20}}, {"text": "read"}]);
    let (_, ann_saw) = say("ann", reads, &["--resume", &ann]);
    assert!(ann_saw.contains("from bob/claude:1") && ann_saw.contains("| It is."), "{ann_saw}");
    // The resumed session has its label again, so the answer to it came.
    let mut sessions = stage.daemon.connect();
    let again = json!({"agent": "ann", "harness_session_id": ann, "harness": "claude"});
    assert_eq!(sessions.ok(m::AgentUse::NAME, again)["label"], "claude:1");
}

#[test]
fn a_tool_that_is_not_allowed_runs_nothing() {
    let stage = Stage::new(daemon!());
    let config = stage.server();
    let file = stage.daemon.work().join("made");
    let script =
        json!([{"tool": "run", "input": {"command": format!("touch {}", file.display())}}, {"text": "done"}]);
    let model = Model::new(&script);
    stage.prompt(&model, &["--mcp-config", &config]);
    assert!(model.seen().contains("permission"), "{}", model.seen());
    assert!(!file.exists());
}

#[test]
fn a_killed_harness_leaves_nothing_behind() {
    let stage = Stage::new(daemon!());
    let config = stage.server();
    let script =
        json!([{"tool": "run", "input": {"command": "sleep 1234 & echo $! >child; wait"}}, {"text": "done"}]);
    let model = Model::new(&script);
    let mut command = stage.claude(&model);
    command.args(["-p", "go on", "--mcp-config", &config, "--allowedTools", "mcp__trl__run"]);
    let mut harness = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let file = stage.daemon.work().join("child");
    wait_until("its command", GUARD * 5, || {
        std::fs::read_to_string(&file).is_ok_and(|pid| !pid.trim().is_empty())
    });
    let child: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    signal(harness.id() as i32, Signal::KILL);
    harness.wait().unwrap();
    assert!(process::ended_within(child, GUARD), "its command runs on");
    wait_until("the end of its sessions", GUARD, || {
        stage.daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().is_empty()
    });
}
