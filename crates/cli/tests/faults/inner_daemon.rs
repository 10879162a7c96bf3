//! A daemon that was started on demand inside a session of another one: its sessions are not that session's.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::process::Signal;
use trl_testkit::{Connection, Daemon, GUARD, Session, Shell, daemon, process, trl, wait_until};

const NOBODY: u32 = 65534;

/// The inner daemon, with one session in which `x` is 1.
struct Inner {
    home: PathBuf,
    pid: i32,
    host: i32,
}

impl Inner {
    fn inside(outer: &mut Session, daemon: &Daemon) -> Inner {
        let home = daemon.work().join("inner");
        let trl = format!("env -u TRL_SOCKET_PATH TRL_HOME='{}' '{}'", home.display(), trl!().display());
        outer.ok(&format!("{trl} run -s inner 'x=1'"));
        let mut inner = Inner { home, pid: 0, host: 0 };
        inner.pid = inner.number(m::SystemInfo::NAME, "pid");
        inner.host = inner.number(m::SessionInfo::NAME, "host_pid");
        assert!(process::descendants(outer.host_pid()).contains(&inner.host));
        inner
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.home.join("run/trl.sock")).unwrap()
    }

    fn number(&self, method: &str, field: &str) -> i32 {
        let params = if method == m::SessionInfo::NAME { json!({"session_id": "inner"}) } else { json!({}) };
        self.connect().ok(method, params)[field].as_i64().unwrap() as i32
    }

    fn keeper(&self) -> i32 {
        process::read(self.host).unwrap().parent
    }

    fn launcher(&self) -> i32 {
        process::read(self.keeper()).unwrap().parent
    }

    fn fail_to_create(&self, daemon: &Daemon) {
        let shell = daemon.work().join("bash");
        std::fs::write(&shell, "#!/nowhere/interpreter\n").unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
        let asked = json!({"shell": shell.display().to_string()});
        self.connect().call(m::SessionCreate::NAME, asked).unwrap_err();
    }

    fn keeps_its_session(&self) {
        let params = json!({"session_id": "inner", "command": "echo $x"});
        assert_eq!(self.connect().ok(m::ExecRun::NAME, params)["stdout"], "1\n");
    }

    /// With all that it has.
    fn end(&self) {
        let all = process::descendants(self.pid);
        self.connect().ok(m::SystemShutdown::NAME, json!({}));
        for pid in all.into_iter().chain([self.pid, self.host]) {
            process::assert_ends("what the inner daemon had", pid);
        }
    }
}

/// Daemons let nobody look into them, which root need not ask for.
fn for_each_user(check: impl Fn(&Daemon)) {
    for daemon in [daemon!(), Daemon::builder(trl!()).as_user(NOBODY).start()] {
        check(&daemon);
    }
}

#[test]
fn its_sessions_outlive_the_outer_one_also_after_a_failed_start() {
    for_each_user(|daemon| {
        let mut outer = daemon.session(Shell::Bash);
        let inner = Inner::inside(&mut outer, daemon);
        inner.fail_to_create(daemon);
        let launcher = inner.launcher();
        assert!(!process::ended_within(launcher, Duration::from_secs(2)), "it has a session");
        assert_eq!(inner.launcher(), launcher);
        outer.destroy();
        inner.keeps_its_session();
        inner.end();
    });
}

#[test]
fn its_sessions_outlive_the_outer_one_also_if_its_launcher_or_a_keeper_was_killed() {
    for_each_user(|daemon| {
        for of in [Inner::launcher, Inner::keeper] {
            let mut outer = daemon.session(Shell::Bash);
            let inner = Inner::inside(&mut outer, daemon);
            process::signal(of(&inner), Signal::KILL);
            wait_until("it has come to the outer host", GUARD, || {
                let parent = process::read(inner.host).unwrap().parent;
                let outer = outer.host_pid();
                // The keeper may be gone between two looks.
                parent == outer || process::read(parent).is_some_and(|keeper| keeper.parent == outer)
            });
            inner.keeps_its_session();
            outer.destroy();
            inner.keeps_its_session();
            inner.end();
        }
    });
}

/// Nobody is there whose they would be.
#[test]
fn sessions_of_a_killed_daemon_end_with_the_outer_one() {
    for_each_user(|daemon| {
        let mut outer = daemon.session(Shell::Bash);
        let inner = Inner::inside(&mut outer, daemon);
        let keeper = inner.keeper();
        process::signal(inner.pid, Signal::KILL);
        wait_until("it has come to the outer host", GUARD, || {
            process::read(keeper).unwrap().parent == outer.host_pid()
        });
        outer.destroy();
        process::assert_ends("the host", inner.host);
        process::assert_ends("its keeper", keeper);
    });
}
