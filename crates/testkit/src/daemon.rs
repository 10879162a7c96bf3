//! A daemon of one test's own: started, watched, ended, and searched for remains.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::connection::Connection;
use crate::http::Http;
use crate::leftovers::Leftovers;
use crate::process;
use crate::session::Session;
use crate::shell::Shell;
use crate::wait::{GUARD, wait_until};

/// Put into the environment of all that a daemon starts, so that it can be found again.
const MARK: &str = "TESTKIT_MARK";
/// What opens the HTTP of a daemon under test.
const TOKEN: &str = "a-token-for-tests-0123456789";

/// What a daemon is started with.
#[derive(Debug)]
pub struct Builder {
    binary: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    launcher: Vec<OsString>,
    user: Option<u32>,
}

impl Builder {
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Builder {
        self.arguments.push(argument.into());
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Builder {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Serves HTTP too, at a port of its own.
    #[must_use]
    pub fn http(self) -> Builder {
        self.arg("--http").arg("127.0.0.1:0").env("TRL_AUTH_TOKEN", TOKEN)
    }

    /// A program that starts the daemon: it gets the daemon's own words as its arguments.
    #[must_use]
    pub fn launched_by(mut self, words: &[&str]) -> Builder {
        self.launcher = words.iter().map(OsString::from).collect();
        self
    }

    /// An ordinary user's daemon. Only root can start one for somebody else; another user's is its own.
    #[must_use]
    pub fn as_user(mut self, user: u32) -> Builder {
        if rustix::process::geteuid().is_root() {
            let words = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()];
            self.launcher = std::iter::once("setpriv".into()).chain(words.map(OsString::from)).collect();
            self.user = Some(user);
        }
        self
    }

    /// Starts the daemon and waits until it takes connections.
    #[track_caller]
    pub fn start(self) -> Daemon {
        let mut daemon = self.prepare();
        daemon.launch();
        daemon
    }

    /// All that a daemon needs, but no daemon yet.
    #[track_caller]
    pub fn prepare(self) -> Daemon {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let dir = tempfile::Builder::new().prefix("trl-test-").tempdir().expect("a temporary directory");
        for name in ["home", "user", "tmp", "work"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("permissions");
        if let Some(user) = self.user {
            let names = ["home", "user", "tmp", "work", "."];
            for name in names {
                std::os::unix::fs::chown(dir.path().join(name), Some(user), Some(user)).expect("its owner");
            }
        }
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Daemon { builder: self, dir, mark, child: None, keeps_sessions: false }
    }
}

#[derive(Debug)]
pub struct Daemon {
    builder: Builder,
    dir: TempDir,
    mark: String,
    child: Option<Child>,
    keeps_sessions: bool,
}

impl Daemon {
    pub fn builder(binary: &Path) -> Builder {
        Builder {
            binary: binary.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            launcher: Vec::new(),
            user: None,
        }
    }

    /// Whom the daemon belongs to.
    pub fn user(&self) -> u32 {
        self.builder.user.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    /// Starts what was only prepared.
    #[must_use]
    #[track_caller]
    pub fn started(mut self) -> Daemon {
        self.launch();
        self
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("trl.sock")
    }

    /// `TRL_HOME`: all that the daemon keeps.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// `HOME` of the daemon and its sessions.
    pub fn user_home(&self) -> PathBuf {
        self.dir.path().join("user")
    }

    pub fn temporary(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// Where sessions begin and tests put their files.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Everything the daemon ever wrote to its stderr.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("log")).unwrap_or_default()).into_owned()
    }

    /// Everything the daemon ever wrote to its stdout.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("stdout")).unwrap_or_default()).into_owned()
    }

    #[track_caller]
    pub fn pid(&self) -> i32 {
        self.child.as_ref().expect("the daemon runs").id() as i32
    }

    /// `trl` in this daemon's environment, ready for arguments.
    pub fn command(&self) -> Command {
        self.environment_for(Command::new(&self.builder.binary))
    }

    fn environment_for(&self, mut command: Command) -> Command {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("LANG", "C.UTF-8")
            .env("HOME", self.user_home())
            .env("TMPDIR", self.temporary())
            .env("TRL_HOME", self.home())
            .env(MARK, &self.mark)
            .envs(self.builder.environment.iter().cloned())
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// `trl` as a person runs it beside this daemon, ready for arguments.
    pub fn client(&self) -> Command {
        let mut command = self.command();
        command.env("TRL_SOCKET_PATH", self.socket());
        command
    }

    /// The same with these arguments, run to its end.
    #[track_caller]
    pub fn trl(&self, arguments: &[&str]) -> Output {
        self.trl_reading(arguments, b"")
    }

    /// The same with something on stdin.
    #[track_caller]
    pub fn trl_reading(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        let mut command = self.client();
        command.args(arguments);
        finish(command, stdin)
    }

    #[track_caller]
    fn launch(&mut self) {
        let append = |name: &str| {
            File::options().create(true).append(true).open(self.dir.path().join(name)).expect("a log file")
        };
        let mut words = self.builder.launcher.iter();
        let mut command = match words.next() {
            None => self.command(),
            Some(program) => {
                let mut command = self.environment_for(Command::new(program));
                command.args(words).arg(&self.builder.binary);
                command
            }
        };
        let child = command
            .arg("serve")
            .arg("--socket")
            .arg(self.socket())
            .args(&self.builder.arguments)
            .stdout(append("stdout"))
            .stderr(append("log"))
            .spawn()
            .expect("the daemon starts");
        self.child = Some(child);
        self.wait_ready();
    }

    /// A new file in the socket's directory is the event to wait for; between `bind`
    /// and `listen` there is none, hence the short waits after a refusal.
    #[track_caller]
    fn wait_ready(&mut self) {
        let end = Instant::now() + GUARD;
        let watcher =
            inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).expect("inotify");
        let changes = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
        inotify::add_watch(&watcher, self.dir.path(), changes).expect("a watch");
        let pid = Pid::from_raw(self.pid()).expect("a pid");
        let daemon = pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd");
        loop {
            let pause = match Connection::open(&self.socket()) {
                Ok(mut connection) => match connection.try_call("system.ping", json!({})) {
                    Some(_) => return,
                    // The socket of a daemon that was just killed may still take a connection.
                    None => Duration::from_millis(1),
                },
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Duration::from_secs(1),
                Err(_) => Duration::from_millis(1),
            };
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().expect("wait")) {
                self.child = None;
                panic!("the daemon ended at its start ({status}):\n{}", self.log());
            }
            assert!(Instant::now() < end, "the daemon opens no socket:\n{}", self.log());
            let pause = Timespec::try_from(pause).expect("a time that fits");
            let mut ready = [PollFd::new(&watcher, PollFlags::IN), PollFd::new(&daemon, PollFlags::IN)];
            let _woken = poll(&mut ready, Some(&pause));
            let _drained = rustix::io::read(&watcher, &mut [0_u8; 4096]);
        }
    }

    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(&self.socket())
            .unwrap_or_else(|error| panic!("no connection ({error}):\n{}", self.log()))
    }

    /// Where this daemon serves HTTP, as its log tells.
    #[track_caller]
    pub fn http(&self) -> Http {
        let mut address = None;
        wait_until("the log tells the address of HTTP", GUARD, || {
            address =
                self.log().lines().rev().find_map(|line| line.split_once("http=")?.1.trim().parse().ok());
            address.is_some()
        });
        Http { address: address.expect("it was just found"), token: TOKEN.to_owned() }
    }

    #[track_caller]
    pub fn session(&self, shell: Shell) -> Session {
        self.session_with(shell, json!({}))
    }

    /// Params given here win over the usual ones.
    #[track_caller]
    pub fn session_with(&self, shell: Shell, params: Value) -> Session {
        Session::create(self.connect(), shell, self.work(), params)
    }

    /// Ends the daemon without a chance to clean up; its hosts stay.
    #[track_caller]
    pub fn kill9(&mut self) {
        let mut child = self.child.take().expect("the daemon runs");
        child.kill().expect("a signal to our own child");
        child.wait().expect("its status");
    }

    /// SIGTERM, and the status it ends with.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        process::signal(self.pid(), Signal::TERM);
        self.wait_end()
    }

    /// Waits for an end that something else has caused.
    #[track_caller]
    pub fn wait_end(&mut self) -> ExitStatus {
        let pid = self.pid();
        if !process::ended_within(pid, GUARD) {
            self.kill9();
            panic!("the daemon (pid {pid}) does not end:\n{}", self.log());
        }
        self.child.take().expect("the daemon ran").wait().expect("its status")
    }

    /// Starts a daemon again on the same home and socket.
    #[track_caller]
    pub fn restart(&mut self) {
        if self.child.is_some() {
            self.kill9();
        }
        self.launch();
    }

    /// Sessions are meant to outlive this daemon: on drop they are ended, not searched for.
    pub fn keep_sessions(&mut self) {
        self.keeps_sessions = true;
    }

    /// Every living process that this daemon, or one before it on this home, caused.
    pub fn processes(&self) -> Vec<i32> {
        let mut found = process::with_environment(&format!("{MARK}={}", self.mark));
        // A daemon's environment is not for everybody to see; its arguments name our directory.
        let here = self.dir.path().to_string_lossy();
        let names_us = |pid: i32| process::arguments(pid).iter().any(|word| word.contains(&*here));
        found.extend(
            process::all().iter().map(|it| it.pid).filter(|&pid| process::is_closed(pid) && names_us(pid)),
        );
        for pid in found.clone() {
            found.extend(process::descendants(pid));
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|&pid| process::alive(pid));
        found
    }

    /// How many descriptors the daemon has open; where only root can see that, as it says itself.
    #[track_caller]
    pub fn open_descriptors(&self) -> usize {
        process::try_open_descriptors(self.pid()).unwrap_or_else(|_| {
            self.connect().ok("system.stats", json!({}))["open_fds"].as_u64().expect("a number") as usize
        })
    }

    /// What is left on this machine of the daemon and its sessions.
    pub fn leftovers(&self) -> Leftovers {
        Leftovers::find(self.processes(), &[self.home(), self.temporary()], &self.socket())
    }

    /// Ends what a failed test or a killed daemon left running; all of it carries our mark.
    fn sweep(&self) {
        for pid in self.processes() {
            process::signal(pid, Signal::KILL);
            process::ended_within(pid, Duration::from_secs(5));
        }
    }
}

/// Runs a program to its end, which must come in time.
#[track_caller]
fn finish(mut command: Command, stdin: &[u8]) -> Output {
    use std::io::Write as _;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let pid = child.id() as i32;
    let mut pipe = child.stdin.take().expect("a pipe");
    let stdin = stdin.to_vec();
    // It may end without reading all of it.
    let writer = std::thread::spawn(move || pipe.write_all(&stdin).is_ok());
    let guard = std::thread::spawn(move || {
        let ended = process::ended_within(pid, GUARD);
        if !ended {
            process::signal(pid, Signal::KILL);
        }
        ended
    });
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer");
    assert!(guard.join().expect("the guard"), "{command:?} does not end");
    output
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            eprintln!("--- the daemon's log ---\n{}--- end of log ---", self.log());
        }
        let Some(mut child) = self.child.take() else {
            self.sweep();
            return;
        };
        let pid = child.id() as i32;
        process::signal(pid, Signal::TERM);
        let ended = process::ended_within(pid, GUARD);
        if !ended {
            let _already_gone = child.kill();
        }
        let status = child.wait().expect("the daemon's status");
        let leftovers = self.leftovers();
        self.sweep();
        if failed || self.keeps_sessions {
            return;
        }
        assert!(ended, "the daemon does not end on SIGTERM:\n{}", self.log());
        assert!(status.success(), "the daemon ends with {status}:\n{}", self.log());
        assert!(leftovers.is_empty(), "after its end the daemon leaves {leftovers:#?}\n{}", self.log());
    }
}
