//! The tools for files, and commands elsewhere than on this machine.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use trl_testkit::{Daemon, GUARD, daemon, wait_until};

use super::client::{Mcp, text};

#[test]
fn files_are_those_that_the_session_sees() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &["--tools", "files"]);
    assert!(mcp.tools().contains(&"read_file".to_owned()) && mcp.tools().contains(&"run".to_owned()));
    let dir = daemon.work().join("of session");
    std::fs::create_dir(&dir).unwrap();
    mcp.call("run", json!({"command": format!("cd '{}'", dir.display())}));
    let written =
        mcp.call("write_file", json!({"path": "sub/a.txt", "content": "one two\n", "mode": "0600"}));
    assert_eq!(text(&written), "[8 bytes written; the file has 8]");
    assert_eq!(std::fs::read_to_string(dir.join("sub/a.txt")).unwrap(), "one two\n");
    mcp.call("write_file", json!({"path": "sub/a.txt", "content": "three", "append": true}));
    let read = mcp.call("read_file", json!({"path": "sub/a.txt"}));
    assert_eq!(text(&read), "one two\nthree\n[13 bytes]");
    let part = mcp.call("read_file", json!({"path": "sub/a.txt", "offset": 4, "limit": 3}));
    assert_eq!(text(&part), "two\n[bytes 4 to 7 of 13; read on with offset=7]");
    let edited = mcp.call("edit_file", json!({"path": "sub/a.txt", "old": "two", "new": "2"}));
    assert_eq!(text(&edited), "[1 replaced]");
    assert_eq!(
        mcp.refused("edit_file", json!({"path": "sub/a.txt", "old": "two", "new": "2"})),
        "FILE_CONFLICT"
    );
    let listed = mcp.call("list_files", json!({"glob": "**/*.txt"}));
    assert_eq!(text(&listed), "sub/a.txt (11 bytes)");
    let info = mcp.call("file_info", json!({"path": "sub"}));
    assert!(text(&info).starts_with("sub/, permissions 07"), "{}", text(&info));
    mcp.call("make_directory", json!({"path": "x/y"}));
    mcp.call("move_file", json!({"from": "sub/a.txt", "to": "x/y/b.txt"}));
    mcp.call("remove_file", json!({"path": "sub", "recursive": true}));
    assert_eq!(mcp.refused("read_file", json!({"path": "sub/a.txt"})), "FILE_NOT_FOUND");
    assert!(dir.join("x/y/b.txt").exists());
}

#[test]
fn run_says_where_a_session_runs() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let here = mcp.fields("run", json!({"command": "x=1", "session": "here", "runtime": "local"}));
    assert_eq!(here["exit_code"], 0);
    let again = mcp.fields("run", json!({"command": "echo $x", "session": "here", "runtime": "local"}));
    assert_eq!(again["stdout"], "1\n");
    assert_eq!(
        mcp.refused("run", json!({"command": ":", "session": "here", "runtime": "container:debian"})),
        "INVALID_PARAMS"
    );
    assert_eq!(mcp.refused("run", json!({"command": ":", "runtime": "nowhere"})), "RUNTIME_NOT_FOUND");
}

/// Which runtime it is and why is told where the model left it open; the next call finds the same session.
#[test]
fn run_takes_names_labels_and_any() {
    let far = Daemon::builder(trl_testkit::trl!()).http().start();
    let daemon = Daemon::builder(trl_testkit::trl!()).prepare();
    let config = daemon.home().join("config");
    std::fs::create_dir_all(&config).unwrap();
    let token = config.join("token");
    std::fs::write(&token, far.http().token).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let runtimes = format!(
        "[runtimes.far]\nkind = \"trl\"\nurl = \"http://{}\"\ntoken_file = \"{}\"\nlabels = [\"gpu\"]\n\
         [runtimes.away]\nkind = \"ssh\"\nhost = \"nobody@127.0.0.1:1\"\nlabels = [\"away\"]\n",
        far.http().address,
        token.display()
    );
    std::fs::write(config.join("config.toml"), runtimes).unwrap();
    let daemon = daemon.started();
    let mut mcp = Mcp::of(&daemon, &[]);
    let run = |runtime: &str, command: &str| json!({"command": command, "runtime": runtime});
    for (runtime, there) in [("far", None), ("label:gpu", Some("far")), ("any", Some("in "))] {
        let first = mcp.call("run", run(runtime, "x=1; pwd"));
        let why = text(&first).contains("was made in") && text(&first).contains("room for");
        assert_eq!(why, there.is_some(), "{runtime}: {}", text(&first));
        assert!(text(&first).contains(there.unwrap_or_default()), "{runtime}: {}", text(&first));
        assert_eq!(mcp.fields("run", run(runtime, "echo $x"))["stdout"], "1\n", "{runtime}");
    }
    let in_far = mcp.fields("run", run("far", "pwd"))["stdout"].clone();
    assert_eq!(in_far, format!("{}\n", far.work().display()));
    let listed = text(&mcp.call("list_sessions", json!({}))).to_owned();
    assert!(listed.contains(" on far"), "{listed}");

    let unknown = mcp.result("run", run("fra", ":"));
    assert!(text(&unknown).contains("RUNTIME_NOT_FOUND") && text(&unknown).contains("\"far\""), "{unknown}");
    let away = mcp.result("run", run("away", ":"));
    assert!(text(&away).contains("RUNTIME_UNAVAILABLE") && text(&away).contains("127.0.0.1"), "{away}");
    wait_until("it is known to be out of reach", GUARD, || {
        text(&mcp.result("run", run("label:away", ":"))).contains("away: ")
    });
    assert_eq!(mcp.refused("run", run("label:none", ":")), "RUNTIME_NOT_FOUND");
}
