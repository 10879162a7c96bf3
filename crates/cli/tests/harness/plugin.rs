//! The plugin of Claude Code: that it is accepted, and what it says where trl is missing.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use trl_testkit::daemon;

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
    assert!(listed.contains("trl@terminal-runtime"), "{listed}");
}

#[test]
fn without_the_program_the_plugin_says_what_to_install() {
    let script = format!("{ROOT}/plugin/claude-code/bin/trl-plugin");
    let run = |args: &[&str]| {
        let mut command = Command::new(&script);
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command.output().unwrap()
    };
    let start = run(&["check"]);
    let said: Value = serde_json::from_slice(&start.stdout).unwrap();
    assert!(said["systemMessage"].as_str().unwrap().contains("cargo install"), "{said}");
    let server = run(&["mcp"]);
    assert_eq!(server.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&server.stderr).contains("cargo install"));
}
