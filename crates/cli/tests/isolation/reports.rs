//! What is enforced is reported, and what cannot be enforced is refused.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, Shell, daemon, needs, trl};

use super::escapes::escapes;
use super::outside::{NOBODY, Outside};
use crate::mcp::client::Mcp;

#[test]
fn a_session_tells_what_holds_it() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"isolation": "workspace"}));
    let info = session.info();
    let isolation = &info["isolation"];
    assert_eq!(isolation["requested"]["profile"], "workspace", "{info}");
    assert_eq!(isolation["missing"], json!([]));
    let by = |what: &str| {
        let all = isolation["enforced"].as_array().cloned().unwrap_or_default();
        all.iter()
            .find(|one| one["what"] == what)
            .map(|one| one["by"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(by("files").as_deref(), Some("mount namespace, Landlock"));
    assert_eq!(by("network").as_deref(), Some("network namespace"));
    assert_eq!(by("system calls").as_deref(), Some("seccomp"));
    let mut plain = daemon.session(Shell::Bash);
    assert_eq!(plain.info()["isolation"], json!(null));
    let about = daemon.connect().ok(m::SystemInfo::NAME, json!({}));
    assert_eq!(about["isolation"], json!(["none", "workspace", "strict"]), "{about}");
}

#[test]
fn what_cannot_be_enforced_is_refused() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let mut refused = |isolation: serde_json::Value, code: &str, text: &str| {
        let made = connection.call(m::SessionCreate::NAME, json!({"isolation": isolation}));
        assert!(made.is_err(), "{isolation}: {made:?}");
        let fault = made.unwrap_err();
        assert_eq!(fault["code"], code, "{fault}");
        assert!(fault["message"].as_str().is_some_and(|message| message.contains(text)), "{fault}");
    };
    refused(json!("tight"), "INVALID_PARAMS", "tight");
    refused(json!({"profile": "strict", "read": ["not/absolute"]}), "INVALID_PARAMS", "not/absolute");
    refused(json!({"profile": "strict", "read": ["/no/such/file"]}), "INVALID_PARAMS", "/no/such/file");
    let own = daemon.home().join("state/mail").display().to_string();
    refused(json!({"profile": "strict", "write": [own]}), "INVALID_PARAMS", "daemon's own");
}

/// A machine without user namespaces: refused with the remedy, or less, told as such.
#[test]
fn without_namespaces_less_is_accepted_only_on_request() {
    if !rustix::process::geteuid().is_root() {
        needs::skip("only root can take namespaces away from a daemon");
        return;
    }
    // In a user namespace that may have no others below it.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let daemon = Daemon::builder(trl!()).launched_by(&["unshare", "-Ur", "bash", "-c", script]).start();
    let mut connection = daemon.connect();
    let fault = connection.call(m::SessionCreate::NAME, json!({"isolation": "workspace"})).unwrap_err();
    assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
    assert!(fault["message"].as_str().is_some_and(|text| text.contains("max_user_namespaces")), "{fault}");
    let about = connection.ok(m::SystemInfo::NAME, json!({}));
    assert_eq!(about["isolation"], json!(["none"]), "{about}");
    let isolation = json!({"profile": "workspace", "best_effort": true});
    let mut session = daemon.session_with(Shell::Bash, json!({"isolation": isolation}));
    session.run("echo x > file && cat file").exits(0).prints("x\n", "");
    assert_ne!(session.run("ls ~/.ssh /var/tmp /tmp").exit_code, Some(0));
    let info = session.info();
    assert!(info["isolation"]["missing"].as_array().is_some_and(|missing| missing.len() >= 5), "{info}");
    session.put_state();
    session.keeps_state();
    session.destroy();
    // A limit that needs a namespace is not said to hold, and another root is not to be had.
    let limited = json!({"isolation": isolation, "limits": {"disk": "1M"}});
    let info = daemon.session_with(Shell::Bash, limited).info();
    assert!(info["isolation"]["missing"].to_string().contains("limit disk"), "{info}");
    assert!(!info["isolation"]["enforced"].to_string().contains("limit disk"), "{info}");
    // It has a shell in its bin.
    let root = json!({"profile": "workspace", "best_effort": true, "root": "/usr"});
    let fault = connection.call(m::SessionCreate::NAME, json!({"isolation": root})).unwrap_err();
    assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
    let outside = Outside::around(&daemon);
    let (escaped, tried) = escapes(&daemon, &outside, Shell::Bash, isolation, false);
    let untold: Vec<&String> = escaped.iter().filter(|name| !IN_PLACE.contains(&name.as_str())).collect();
    assert!(tried >= 160 && untold.is_empty(), "{tried} {untold:?}");
}

/// What gets out without namespaces, all of it reported as missing: names, metadata, processes, terminals.
const IN_PLACE: &[&str] = &[
    "access_outside",
    "chmod_outside",
    "chown_outside",
    "fchmodat2_outside",
    "file_setattr_outside",
    "kernel_symbols",
    "other_terminals",
    "see_daemon",
    "see_victim",
    "setxattr_outside",
    "setxattrat_outside",
    "stat_outside",
    "utime_outside",
];

#[test]
fn a_default_holds_for_everybody_who_names_none() {
    let daemon = Daemon::builder(trl!()).as_user(NOBODY).arg("--isolation").arg("strict").start();
    let mut session = daemon.session(Shell::Bash);
    assert_eq!(session.info()["isolation"]["requested"]["profile"], "strict");
    let mut open = daemon.session_with(Shell::Bash, json!({"isolation": "none"}));
    assert_eq!(open.info()["isolation"], json!(null));
}

#[test]
fn the_command_line_asks_for_it() {
    let daemon = daemon!();
    let out = daemon.trl(&["run", "--new", "--isolation", "strict", "--", "ls -a ~ | wc -l; ls /"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{out:?}");
    assert!(text.starts_with("2\n") && text.contains("usr") && !text.contains("opt"), "{text}");
    assert!(daemon.trl(&["run", "-s", "one", "--", "true"]).status.success());
    let out = daemon.trl(&["run", "-s", "one", "--isolation", "strict", "--", "true"]);
    assert!(!out.status.success(), "a session that is there is not taken for an isolated one");
}

/// From the configuration file, for sessions that an agent's tools make.
#[test]
fn the_configured_default_holds_for_agents() {
    let daemon = Daemon::builder(trl!()).prepare();
    let file = daemon.home().join("config/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "isolation = \"strict\"\n").unwrap();
    let daemon = daemon.started();
    let mut mcp = Mcp::of(&daemon, &[]);
    let ran = mcp
        .fields("run", json!({"command": "ls -a ~ | wc -l; ls /opt 2>&1 | wc -l; echo x > made; cat made"}));
    assert_eq!(ran["stdout"], "2\n1\nx\n", "{ran}");
    let sessions = daemon.connect().ok(m::SessionList::NAME, json!({}));
    let one = &sessions["sessions"][0];
    assert_eq!(one["isolation"]["requested"]["profile"], "strict", "{sessions}");
}

/// What the machine supports is told before anybody asks for it.
#[test]
fn support_is_told() {
    let root = daemon!();
    let about = root.connect().ok(m::SystemInfo::NAME, json!({}));
    assert!(about["isolation_missing"].is_null() || about["isolation_missing"].is_array(), "{about}");
    let ordinary = Daemon::builder(trl!()).as_user(NOBODY).start();
    let about = ordinary.connect().ok(m::SystemInfo::NAME, json!({}));
    assert_eq!(about["isolation"], json!(["none", "workspace", "strict"]), "{about}");
    let missing = about["isolation_missing"].to_string();
    assert!(missing.contains("limit memory") && missing.contains("Delegate=yes"), "{about}");
    let limits = json!({"limits": {"cpu": 0.5}});
    let fault = ordinary.connect().call(m::SessionCreate::NAME, limits).unwrap_err();
    assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
    assert!(fault["message"].as_str().is_some_and(|text| text.contains("Delegate=yes")), "{fault}");
    let less = json!({"isolation": {"best_effort": true}, "limits": {"cpu": 0.5, "memory": "512M"}});
    let mut session = ordinary.session_with(Shell::Bash, less);
    let info = session.info();
    assert!(info["isolation"]["missing"].to_string().contains("limit cpu"), "{info}");
    assert!(info["isolation"]["enforced"].to_string().contains("each process only"), "{info}");
    let doctor = String::from_utf8_lossy(&root.trl(&["doctor"]).stdout).into_owned();
    assert!(doctor.contains("sessions can be isolated") && doctor.contains("cgroups"), "{doctor}");
}
