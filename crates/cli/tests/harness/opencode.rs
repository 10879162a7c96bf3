//! opencode, with trl as an MCP server.

use serde_json::json;
use trl_testkit::{daemon, trl};

use super::{Model, Stage, succeeds};

#[test]
fn its_model_reads_text_and_the_shell_keeps_its_state() {
    let stage = Stage::new(daemon!());
    let script = json!([
        {"tool": "run", "input": {"command": "cd /usr; x=5"}},
        {"tool": "run", "input": {"command": "pwd; echo $x; echo problem >&2"}},
        {"text": "done"},
    ]);
    let model = Model::new(&script);
    let config = json!({
        "model": "here/m",
        "autoupdate": false,
        "share": "disabled",
        "provider": {"here": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "here",
            "options": {"baseURL": format!("http://127.0.0.1:{}/v1", model.port), "apiKey": "anything"},
            "models": {"m": {"name": "m"}},
        }},
        "mcp": {"trl": {"type": "local", "command": [trl!(), "mcp"], "enabled": true}},
    });
    std::fs::write(stage.daemon.work().join("opencode.json"), config.to_string()).unwrap();
    let mut command = stage.program("opencode");
    command.args(["run", "go on"]);
    succeeds(command);
    assert!(model.seen().contains(r"/usr\n5\n[stderr]\nproblem"), "{}", model.seen());
}
