//! Where an isolated session works: what of the machine it is given, by which names, and what never.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, Shell, daemon, needs, trl};

use super::outside::NOBODY;

fn daemons() -> [Daemon; 2] {
    [daemon!(), Daemon::builder(trl!()).as_user(NOBODY).start()]
}

/// A directory of the daemon's user in the session's usual workspace.
fn made(daemon: &Daemon, name: &str) -> PathBuf {
    let path = daemon.work().join(name);
    fs::create_dir_all(&path).unwrap();
    chown(&path, Some(daemon.user()), Some(daemon.user())).unwrap();
    path.canonicalize().unwrap()
}

fn refused(daemon: &Daemon, params: Value) -> Value {
    daemon.connect().call(m::SessionCreate::NAME, params).unwrap_err()
}

fn message(fault: &Value) -> &str {
    fault["message"].as_str().unwrap_or_default()
}

#[test]
fn a_working_directory_may_be_named_by_a_link() {
    for daemon in daemons() {
        let (real, link) = (made(&daemon, "real"), daemon.work().join("link"));
        symlink(&real, &link).unwrap();
        let params =
            json!({"isolation": {"profile": "strict", "hide": [link.join("secret")]}, "working_dir": link});
        fs::write(real.join("secret"), "secret").unwrap();
        let mut session = daemon.session_with(Shell::Bash, params);
        session.ok("echo made > here");
        assert_eq!(fs::read_to_string(real.join("here")).unwrap(), "made\n");
        session.run("pwd").exits(0).prints(&format!("{}\n", link.display()), "");
        // Whatever name it has, what is hidden is hidden.
        let both = format!("cat {} {}", link.join("secret").display(), real.join("secret").display());
        session.run(&both).exits(0).prints("", "");
    }
}

#[test]
fn commands_have_directories_of_the_inside() {
    for daemon in daemons() {
        for shell in Shell::installed() {
            let mut session = daemon.session_with(shell, json!({"isolation": "workspace"}));
            session.ok("mkdir /tmp/inside && ln -s /tmp/inside /tmp/other");
            for dir in ["/tmp/inside", "/tmp/other"] {
                for background in [false, true] {
                    let ran = session
                        .run_with(json!({"command": "pwd -P", "working_dir": dir, "background": background}));
                    assert_eq!(
                        (ran.stdout.as_str(), ran.exit_code),
                        ("/tmp/inside\n", Some(0)),
                        "{shell:?} {dir}"
                    );
                }
            }
            // Of the outside, and not there.
            for dir in [daemon.home(), PathBuf::from("/tmp/gone")] {
                let asked = session.params(json!({"command": "pwd", "working_dir": dir}));
                let fault = daemon.connect().call(m::ExecRun::NAME, asked).unwrap_err();
                assert_eq!(fault["details"]["field"], "working_dir", "{fault}");
            }
        }
    }
}

/// Directories of everybody and of the system are seen as the profile says, and are not given to be written.
#[test]
fn common_directories_are_not_given_away() {
    let daemon = daemon!();
    for dir in ["/var/tmp", "/home", "/usr/lib", "/etc/ssh", "/var/lib", "/var/log"] {
        if !Path::new(dir).is_dir() {
            continue;
        }
        let mut session =
            daemon.session_with(Shell::Bash, json!({"isolation": "workspace", "working_dir": dir}));
        session.run(&format!("echo x > {dir}/trl-escaped"));
        let escaped = Path::new(dir).join("trl-escaped");
        assert!(!escaped.exists(), "{dir}");
        session.destroy();
    }
}

#[test]
fn what_cannot_be_given_is_refused_with_the_reason() {
    for daemon in daemons() {
        for (isolation, text) in [
            (json!({"profile": "strict", "read": ["/"]}), "name the directories"),
            (json!({"profile": "strict", "write": ["/"]}), "name the directories"),
            (json!({"profile": "strict", "root": "/"}), "name the directories"),
            (json!({"profile": "strict", "write": ["/proc/sys"]}), "own /proc and /dev"),
            (json!({"profile": "strict", "read": ["/dev"]}), "own /proc and /dev"),
        ] {
            let fault = refused(&daemon, json!({"isolation": isolation}));
            assert_eq!(fault["code"], "INVALID_PARAMS", "{fault}");
            assert!(message(&fault).contains(text), "{fault}");
        }
        let hidden =
            refused(&daemon, json!({"isolation": {"profile": "strict", "hide": ["/usr"]}, "shell": "bash"}));
        assert_eq!(hidden["details"]["field"], "shell", "{hidden}");
        let closed = daemon.work().join("closed");
        fs::create_dir(&closed).unwrap();
        chown(&closed, Some(12345), Some(12345)).unwrap();
        fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let fault = refused(&daemon, json!({"isolation": "strict", "working_dir": closed}));
        assert_eq!(fault["code"], "INVALID_PARAMS", "{fault}");
        assert!(message(&fault).contains("without privileges"), "{fault}");
    }
}

/// The sessions of a workspace can put links there; what a later session is given does not follow them out.
#[test]
fn links_in_the_workspace_do_not_lead_out_of_it() {
    for daemon in daemons() {
        let work = made(&daemon, "here");
        let secret = daemon.user_home().join("secret");
        fs::create_dir_all(&secret).unwrap();
        fs::write(secret.join("key"), "key").unwrap();
        symlink(&secret, work.join("data")).unwrap();
        for field in ["read", "write"] {
            let isolation = json!({"profile": "strict", field: [work.join("data")]});
            let fault = refused(&daemon, json!({"isolation": isolation, "working_dir": work}));
            assert!(message(&fault).contains("leads out"), "{fault}");
        }
        // A link that somebody else has made is followed, and keeps its name.
        let mut session = daemon.session_with(
            Shell::Bash,
            json!({"isolation": {"profile": "strict", "read": [work.join("data")]}, "working_dir": made(&daemon, "there")}),
        );
        session.run(&format!("cat {}/key", work.join("data").display())).exits(0).prints("key", "");
    }
}

/// Its directories, its configuration and its tokens, by whatever name and from wherever they are asked for.
#[test]
fn the_daemons_own_files_are_never_given() {
    for daemon in daemons() {
        let home = daemon.home().canonicalize().unwrap();
        // The daemon has made it: a session could create one that is missing.
        let config = home.join("config");
        fs::write(config.join("token"), "token").unwrap();
        let work = made(&daemon, "here");
        let outside = daemon.user_home().join("link");
        symlink(home.join("state"), &outside).unwrap();
        for path in [home.join("state"), home.join("run"), config.clone(), outside] {
            let fault = refused(
                &daemon,
                json!({"isolation": {"profile": "strict", "read": [path]}, "working_dir": work}),
            );
            assert!(message(&fault).contains("daemon's own"), "{fault}");
        }
        for dir in [home.join("state"), config] {
            let fault = refused(&daemon, json!({"isolation": "strict", "working_dir": dir}));
            assert!(message(&fault).contains("daemon's own"), "{fault}");
        }
        // From above they are empty, and nothing can be put in their place.
        let above = daemon.user_home().join("above");
        symlink(&home, &above).unwrap();
        for isolation in
            [json!({"profile": "strict", "write": [home]}), json!({"profile": "strict", "write": [above]})]
        {
            let mut session =
                daemon.session_with(Shell::Bash, json!({"isolation": isolation, "working_dir": work}));
            let home = home.display();
            session
                .run(&format!("ls -A {home}/state {home}/run {home}/config | grep -v :"))
                .prints("\n\n", "");
            for attempt in
                ["mv $H/state $H/other", "rmdir $H/run", "rm -r $H/config", "touch $H/config/config.toml"]
            {
                let ran = session.run(&attempt.replace("$H", &home.to_string()));
                assert_ne!(ran.exit_code, Some(0), "{attempt}");
            }
            session.destroy();
        }
    }
}

/// Tokens, and programs that the daemon runs outside.
#[test]
fn what_settings_name_is_never_given() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    fs::create_dir(work.join("tokens")).unwrap();
    fs::write(work.join("tokens/other:1"), "secret").unwrap();
    for file in ["token", "engine"] {
        fs::write(work.join(file), "secret").unwrap();
        fs::set_permissions(work.join(file), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let settings = |engine: &str| {
        let work = work.display();
        format!(
            "container_engine = \"{work}/{engine}\"\n[runtimes.other]\nkind = \"trl\"\nurl = \"https://other:1\"\ntoken_file = \"{work}/token\"\n"
        )
    };
    fs::write(work.join("config.toml"), settings("engine")).unwrap();
    let started = || Daemon::builder(trl!()).arg("--config").arg(work.join("config.toml")).start();
    let daemon = started();
    let params = json!({"isolation": "workspace", "working_dir": work});
    let mut session = daemon.session_with(Shell::Bash, params.clone());
    session.run("cat token engine config.toml; ls -A tokens").exits(0).prints("", "");
    for attempt in
        ["echo x > engine", "rm engine", "mv engine other", "touch tokens/new", "echo x > config.toml"]
    {
        assert_ne!(session.run(attempt).exit_code, Some(0), "{attempt}");
    }
    drop(daemon);
    // A session that can write where a program is missing could put one there.
    fs::write(work.join("config.toml"), settings("missing")).unwrap();
    let daemon = started();
    let fault = refused(&daemon, params);
    assert!(message(&fault).contains("missing") && message(&fault).contains("create it first"), "{fault}");
}

#[test]
fn an_object_without_a_profile_isolates() {
    let daemon = daemon!();
    fs::write(daemon.user_home().join("secret"), "secret").unwrap();
    for isolation in [json!({"net": "none"}), json!({"best_effort": true}), json!({})] {
        let mut session = daemon.session_with(Shell::Bash, json!({"isolation": isolation}));
        assert_eq!(session.info()["isolation"]["requested"]["profile"], "workspace", "{isolation}");
        assert_ne!(session.run("cat ~/secret").exit_code, Some(0), "{isolation}");
        session.destroy();
    }
}

/// In a directory below the one that a session may write, too: what leads there cannot be renamed.
#[test]
fn the_way_to_the_daemons_own_files_stays() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap();
    let daemon = Daemon::builder(trl!()).arg("--state-dir").arg(work.join("a/b")).start();
    let mut session =
        daemon.session_with(Shell::Bash, json!({"isolation": "workspace", "working_dir": work}));
    session.run("ls -A a/b; echo x > a/file").exits(0).prints("", "");
    for attempt in ["mv a c", "mv a/b a/c", "rm -r a/b"] {
        assert_ne!(session.run(attempt).exit_code, Some(0), "{attempt}");
    }
    session.run("mkdir c && mv c d && rmdir d").exits(0);
}

/// What an isolated session leaves behind acts only where that session could act.
#[test]
fn a_kept_state_does_not_leave_its_isolation() {
    let daemon = daemon!();
    let (here, there) = (made(&daemon, "here"), made(&daemon, "there"));
    let create = |isolation: &str, dir: &Path| {
        let params =
            json!({"isolation": isolation, "working_dir": dir, "keep_state": "k", "restore_state": "k"});
        daemon.session_with(Shell::Bash, params)
    };
    let mut first = create("workspace", &here);
    first.ok("ls() { echo replaced; }; PS4=evil; x=kept");
    // Its state is kept before the next command runs.
    first.ok(":");
    first.destroy();
    for (isolation, dir) in [("none", &here), ("strict", &here), ("workspace", &there)] {
        let params = json!({"isolation": isolation, "working_dir": dir, "restore_state": "k"});
        let mut other = daemon.session_with(Shell::Bash, params);
        let asked = other.params(json!({"command": "echo \"<$x>\"; type -t ls"}));
        let ran = daemon.connect().ok(m::ExecRun::NAME, asked);
        assert_eq!(ran["stdout"], "<>\nfile\n", "{isolation} {ran}");
        assert!(ran["notes"].to_string().contains("was not restored"), "{ran}");
        other.destroy();
    }
    let mut same = create("workspace", &here);
    same.run("echo $x; ls").exits(0).prints("kept\nreplaced\n", "");
}

/// The port of a server inside is found there, and not that of one outside.
#[test]
fn a_port_is_waited_for_in_the_sessions_own_network() {
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    for daemon in daemons() {
        let mut session = daemon.session_with(Shell::Bash, json!({"isolation": "workspace"}));
        if session.run("command -v /usr/bin/python3").exit_code != Some(0) {
            needs::skip("there is no python3");
            return;
        }
        let wait = |exec: &str, more: Value| {
            let mut until = json!({"port": port});
            until.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            daemon
                .connect()
                .call(m::ExecWait::NAME, json!({"exec_id": exec, "until": {"port": until}, "timeout_s": 20}))
        };
        let idle = session.start(json!({"command": "sleep 0.3", "background": true}));
        assert_eq!(
            wait(&idle, json!({})).unwrap_err()["code"],
            "COMMAND_FAILED",
            "the one outside does not count"
        );
        let serve = format!(
            "/usr/bin/python3 -c 'import http.server as h; h.HTTPServer((\"127.0.0.1\", {port}), h.SimpleHTTPRequestHandler).serve_forever()'"
        );
        let server = session.start(json!({"command": serve, "background": true}));
        let found = wait(&server, json!({})).unwrap();
        assert_eq!(found["matched"]["port"]["port"], port, "{found}");
        let answered = wait(&server, json!({"http_path": "/", "host": "localhost"})).unwrap();
        assert_eq!(answered["matched"]["port"]["http_status"], 200, "{answered}");
        assert_eq!(wait(&server, json!({"host": "192.0.2.1"})).unwrap_err()["code"], "INVALID_PARAMS");
    }
}
