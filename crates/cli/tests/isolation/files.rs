//! Requests about files in an isolated session see what the session sees, with its rights.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::fs;
use std::os::unix::fs::symlink;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, Session, Shell, daemon, trl};

use super::outside::NOBODY;

struct Asked<'d> {
    daemon: &'d Daemon,
    session: Session,
}

impl Asked<'_> {
    fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        self.daemon.connect().call(method, self.session.params(params))
    }

    fn ok(&self, method: &str, params: Value) -> Value {
        self.call(method, params).unwrap()
    }

    fn fails(&self, method: &str, params: Value) -> String {
        self.call(method, params).unwrap_err()["code"].as_str().unwrap_or_default().to_owned()
    }
}

#[test]
fn files_are_as_the_session_sees_them() {
    for daemon in [daemon!(), Daemon::builder(trl!()).as_user(NOBODY).start()] {
        let isolation = json!({"profile": "workspace", "hide": [daemon.work().join("hidden")]});
        fs::create_dir_all(daemon.work().join("hidden")).unwrap();
        fs::write(daemon.work().join("hidden/secret"), "secret").unwrap();
        let session = daemon.session_with(Shell::Bash, json!({"isolation": isolation}));
        let mut asked = Asked { daemon: &daemon, session };
        // The workspace is that of the outside; the private directories are not.
        asked.ok(m::FileWrite::NAME, json!({"path": "made", "content": "by request\n"}));
        asked.session.run("cat made").exits(0).prints("by request\n", "");
        asked.session.ok("echo private > /tmp/only-inside; cd /tmp");
        assert_eq!(asked.ok(m::FileRead::NAME, json!({"path": "only-inside"}))["text"], "private\n");
        assert!(!std::path::Path::new("/tmp/only-inside").exists());
        let large = "x".repeat(1 << 20);
        asked.ok(m::FileWrite::NAME, json!({"path": "/tmp/large", "content": large}));
        assert_eq!(asked.session.ok("wc -c < /tmp/large").trim(), "1048576");
        assert_eq!(asked.ok(m::FileRead::NAME, json!({"path": "/tmp/large"}))["text"], large);
        asked.ok(m::FileMakeDir::NAME, json!({"path": "dir"}));
        asked.ok(m::FileMove::NAME, json!({"from": "only-inside", "to": "dir/moved"}));
        let listed = asked.ok(m::FileList::NAME, json!({"path": "dir"})).to_string();
        assert!(listed.contains("moved"), "{listed}");
        asked.ok(m::FileEdit::NAME, json!({"path": "dir/moved", "old": "private", "new": "edited"}));
        assert_eq!(asked.ok(m::FileRead::NAME, json!({"path": "dir/moved"}))["text"], "edited\n");
        asked.ok(m::FileRemove::NAME, json!({"path": "dir", "recursive": true}));
        // What the session has not, a request has not either.
        let outside = daemon.user_home().join("outside");
        fs::write(&outside, "secret").unwrap();
        let hidden = daemon.work().join("hidden/secret");
        symlink(&outside, daemon.work().join("link")).unwrap();
        let link = daemon.work().join("link");
        for path in [&outside, &hidden, &link, &daemon.socket()] {
            assert_eq!(asked.fails(m::FileRead::NAME, json!({"path": path})), "FILE_NOT_FOUND", "{path:?}");
        }
        for path in ["/usr/written", "/etc/written", "/proc/sys/kernel/hostname"] {
            let code = asked.fails(m::FileWrite::NAME, json!({"path": path, "content": "x"}));
            assert!(code.starts_with("FILE_"), "{path}: {code}");
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    }
}

/// A path in the workspace that changes all the time into a link that leads out.
#[test]
fn a_race_for_a_path_leads_nowhere() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Bash, json!({"isolation": "workspace"}));
    let mut asked = Asked { daemon: &daemon, session };
    let outside = daemon.user_home().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("file"), "secret").unwrap();
    asked.session.ok(&format!(
        "mkdir -p real && echo own > real/file && ln -s {} link && (while :; do mv -T real at; mv -T at real; mv -T link at; mv -T at link; done >/dev/null 2>&1 &)",
        outside.display()
    ));
    let mut connection = daemon.connect();
    for _ in 0..200 {
        let params = asked.session.params(json!({"path": "at/file"}));
        if let Ok(read) = connection.call(m::FileRead::NAME, params) {
            assert_eq!(read["text"], "own\n");
        }
        let params = asked.session.params(json!({"path": "at/new", "content": "x"}));
        connection.call(m::FileWrite::NAME, params).ok();
    }
    let names: Vec<_> = fs::read_dir(&outside).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["file"]);
    asked.session.destroy();
}
