//! The plugin of Claude Code: that it is accepted, and what it says where trl is missing.

use std::process::{Command, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{GUARD, daemon, wait_until};

use super::{Model, ROOT, Stage, succeeds};

#[test]
fn it_is_valid_and_installs() {
    let stage = Stage::new(daemon!());
    for path in [ROOT.to_owned(), format!("{ROOT}/plugin/claude-code")] {
        let mut command = stage.program("claude");
        command.args(["plugin", "validate", &path]);
        let said = succeeds(command);
        assert!(said.contains("Validation passed"), "{said}");
    }
    let model = Model::new(&json!([]));
    stage.install_plugin(&model);
    let mut command = stage.program("claude");
    command.args(["plugin", "list"]);
    let listed = succeeds(command);
    assert!(listed.contains("trl@terminal-runtime") && listed.contains("enabled"), "{listed}");
    let mut command = stage.program("claude");
    command.args(["plugin", "details", "trl"]);
    let details = succeeds(command);
    for name in COMMANDS {
        assert!(details.contains(name), "{name}: {details}");
    }
}

const COMMANDS: [&str; 15] = [
    "agents",
    "use",
    "whoami",
    "sessions",
    "send",
    "inbox",
    "contacts",
    "assign",
    "unassign",
    "autorespond",
    "reset",
    "run",
    "attach",
    "ps",
    "logs",
];

/// Neither the harness nor its user waits for a hook to which nothing is said.
#[test]
fn a_hook_does_not_wait_for_a_silent_harness() {
    let daemon = daemon!();
    let mut hook = daemon.client();
    hook.args(["hook", "stop"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hook = hook.spawn().unwrap();
    let open = hook.stdin.take();
    wait_until("it ends", GUARD, || hook.try_wait().unwrap().is_some_and(|status| status.success()));
    drop(open);
}

/// What a command tells the model to run must be there.
#[test]
fn commands_name_tools_and_verbs_that_exist() {
    let tools = trl_mcp::definitions(&trl_mcp::Profile::Full, false);
    let daemon = daemon!();
    for name in COMMANDS {
        let text = std::fs::read_to_string(format!("{ROOT}/plugin/claude-code/commands/{name}.md")).unwrap();
        let code: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        for words in &code {
            if let Some(verb) = words.strip_prefix("trl ") {
                let words: Vec<&str> = verb
                    .split(' ')
                    .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
                    .collect();
                let help = daemon.trl(&[&words[..], &["--help"]].concat());
                assert!(help.status.success(), "{name}: trl {verb}");
            }
        }
        let named = text.split("the trl tool `").nth(1).and_then(|rest| rest.split('`').next());
        if let Some(tool) = named {
            assert!(tools.iter().any(|known| known.name == tool), "{name}: {tool}");
        }
    }
}

#[test]
fn what_the_hooks_say_reaches_the_model() {
    let stage = Stage::new(daemon!());
    for name in ["ann", "bob"] {
        assert!(stage.daemon.trl(&["agent", "create", name]).status.success());
    }
    assert!(stage.daemon.trl(&["agent", "assign", "bob", "--global"]).status.success());
    assert!(stage.daemon.trl(&["send", "--as", "ann", "bob", "psst"]).status.success());
    wait_until("the message arrives", GUARD, || {
        let unread = json!({"harness_session_id": "nobody", "agent": "bob"});
        stage.daemon.connect().ok(m::MailNotices::NAME, unread)["unread"] == 1
    });
    let model = Model::new(&json!([]));
    stage.install_plugin(&model);
    let said = stage.prompt(&model, &[]);
    let asked = model.asked().into_iter().map(|body| body.to_string()).collect::<String>();
    assert!(asked.contains("trl: you are agent bob"), "{asked}");
    assert!(asked.contains("1 unread message") && !asked.contains("psst"), "{asked}");
    // The session is over, and its label free.
    wait_until("the label is released", GUARD, || {
        stage.daemon.connect().ok(m::AgentSessions::NAME, json!({"agent": "bob"}))["sessions"] == json!([])
    });
    assert!(said["session_id"].is_string());
}

#[test]
fn without_the_program_the_plugin_says_what_to_install() {
    let script = format!("{ROOT}/plugin/claude-code/bin/trl-plugin");
    let run = |args: &[&str]| {
        let mut command = Command::new(&script);
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.output().unwrap()
    };
    let start = run(&["hook", "session-start"]);
    let said: Value = serde_json::from_slice(&start.stdout).unwrap();
    assert!(said["systemMessage"].as_str().unwrap().contains("cargo install"), "{said}");
    assert!(run(&["hook", "stop"]).status.success());
    let server = run(&["mcp"]);
    assert_eq!(server.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&server.stderr).contains("cargo install"));
}
