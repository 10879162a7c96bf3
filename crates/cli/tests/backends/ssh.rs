//! The conformance suite over SSH, with a server of the test's own on a loopback port.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_runtime::Config;
use trl_runtime::backend::{Backend, Ssh};
use trl_testkit::{GUARD, needs, own_port, process, wait_until};

use super::conformance;
use super::daemon::{Daemon, Home, World};
use super::local::kill_host_process;

/// A machine that is reached by SSH: this one, with a home directory of its own.
pub(super) struct Far {
    dir: TempDir,
    port: u16,
    server: Child,
}

/// Whether requests share a connection.
enum Sharing {
    One,
    None,
}

fn obstacle() -> Option<&'static str> {
    let is_there = |path: &str| Path::new(path).exists();
    if !is_there("/usr/sbin/sshd") || !is_there("/usr/bin/ssh") || !is_there("/usr/bin/ssh-keygen") {
        return Some("openssh-server and openssh-client are not installed");
    }
    super::static_host().is_none().then_some("scripts/build-host has not been run")
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Far {
    pub(super) fn new() -> Option<Far> {
        Far::with(Sharing::One)
    }

    /// `None` where SSH cannot be tried.
    fn with(sharing: Sharing) -> Option<Far> {
        if let Some(obstacle) = obstacle() {
            needs::skip(obstacle);
            return None;
        }
        let dir = tempfile::Builder::new().prefix("trl-ssh-").tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["bin", "far-bin", "home"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for key in ["host_key", "user_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(at(key))
                .status();
            assert!(made.unwrap().success());
        }
        std::fs::copy(at("user_key.pub"), at("authorized_keys")).unwrap();
        let port = own_port();
        let home = at("home").display().to_string();
        let show = |name: &str| at(name).display().to_string();
        let server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nPidFile none\nSetEnv HOME={home} XDG_STATE_HOME={home}/state \
             XDG_CACHE_HOME={home}/cache TESTKIT_FAR={home} PATH={}:/usr/bin:/bin\nMaxStartups 100\nMaxSessions 100\n",
            show("host_key"),
            show("authorized_keys"),
            show("far-bin"),
        );
        write(&at("sshd_config"), &server, 0o600);
        let host_key = std::fs::read_to_string(at("host_key.pub")).unwrap();
        write(&at("known_hosts"), &format!("[127.0.0.1]:{port} {host_key}"), 0o600);
        // Many sessions over few connections, as people configure it: a connection costs more than all else here.
        let sharing = match sharing {
            Sharing::One => {
                format!("ControlMaster auto\nControlPath {}/c-%C\nControlPersist 60\n", dir.path().display())
            }
            Sharing::None => String::new(),
        };
        let client = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\n{sharing}",
            show("user_key"),
            show("known_hosts"),
        );
        write(&at("ssh_config"), &client, 0o600);
        write(
            &at("bin/ssh"),
            &format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", show("ssh_config")),
            0o755,
        );
        let server = serve(&at("sshd_config"), &at("log"));
        let far = Far { dir, port, server };
        far.wait_ready();
        Some(far)
    }

    /// Out of reach from now on.
    fn stop(&mut self) {
        for pid in self.connections() {
            process::signal(pid, process::Signal::KILL);
        }
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// Within reach again.
    fn start(&mut self) {
        self.server = serve(&self.dir.path().join("sshd_config"), &self.dir.path().join("log"));
        self.wait_ready();
    }

    fn wait_ready(&self) {
        wait_until("sshd listens", GUARD, || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    fn target(&self) -> String {
        let user = rustix::process::getuid().as_raw();
        let name = std::fs::read_to_string("/etc/passwd").unwrap();
        let is_me = |line: &&str| line.split(':').nth(2) == Some(user.to_string().as_str());
        let name = name.lines().find(is_me).and_then(|line| line.split(':').next()).unwrap().to_owned();
        format!("{name}@127.0.0.1:{}", self.port)
    }

    /// The processes of present connections.
    fn connections(&self) -> Vec<i32> {
        process::children(self.server.id() as i32)
    }
}

fn serve(config: &Path, log: &Path) -> Child {
    // The server insists on this directory when it runs as root.
    let _ = std::fs::create_dir_all("/run/sshd");
    Command::new("/usr/sbin/sshd")
        .args(["-D", "-f"])
        .arg(config)
        .arg("-E")
        .arg(log)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

impl Far {
    pub(super) fn backend_with(&self, config: &Config, static_host: Option<PathBuf>) -> Arc<dyn Backend> {
        let mut config = config.clone();
        if static_host.is_none() {
            // As good as a copy on this machine, and not as large.
            let small = self.dir.path().join("trl");
            write(&small, &format!("#!/bin/sh\nexec {} \"$@\"\n", config.host_program.display()), 0o755);
            config.host_program = small;
        }
        config.static_host = static_host;
        let path = format!("{}:/usr/bin:/bin", self.dir.path().join("bin").display());
        config.env.insert("PATH".into(), path);
        let near = self.dir.path().join("near");
        Arc::new(Ssh::new(&config, &self.target(), "test".into(), near).unwrap())
    }
}

impl World for Far {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        self.backend_with(config, super::static_host())
    }

    fn kill_host(&self, info: &Value) {
        kill_host_process(info);
    }

    fn assert_no_leftovers(&self) {
        let base = self.dir.path().join("home/state/trl/far/test");
        let mut left: Vec<PathBuf> = Vec::new();
        wait_until("nothing is left over there", GUARD, || {
            let near = self.dir.path().join("near");
            let dirs = [base.join("hosts"), base.join("sessions"), near.join("copies"), near.join("known")];
            let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
            left = entries
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_none_or(|it| it != "relay"))
                .collect();
            left.is_empty()
        });
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        for pid in self.connections() {
            process::signal(pid, process::Signal::KILL);
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
        let mark = format!("TESTKIT_FAR={}", self.dir.path().join("home").display());
        for pid in process::with_environment(&mark) {
            process::signal(pid, process::Signal::KILL);
            process::ended_within(pid, GUARD);
        }
    }
}

macro_rules! over_ssh {
    ($($promise:ident,)*) => {$(
        #[test]
        fn $promise() {
            if let Some(world) = Far::new() {
                conformance::$promise(&world);
            }
        }
    )*};
}

over_ssh!(
    a_command_runs_and_its_state_stays,
    output_streams_while_the_command_runs,
    a_cancelled_command_ends_and_the_shell_stays,
    a_running_command_survives_the_daemon,
    what_a_command_finished_without_a_daemon_is_told_by_the_next,
    a_lost_host_leaves_its_output_and_can_be_restarted,
    a_host_lost_without_a_daemon_is_found_lost,
    destroying_leaves_nothing,
    the_end_of_the_daemon_ends_its_sessions,
    many_sessions_at_once_are_kept_apart,
    what_cannot_be_started_is_refused_and_leaves_nothing,
    files_are_those_of_the_place,
    a_fork_begins_with_the_state_of_its_origin,
    a_port_is_waited_for_where_the_session_runs,
);

/// Connections are cut at any moment; nobody notices but by the time it takes.
#[test]
fn a_hundred_commands_come_out_right_while_connections_are_cut() {
    const CUTS: usize = 8;
    let Some(far) = Far::with(Sharing::None) else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            let (finished, mut cuts) = (finished, 0);
            // Each time some commands have come through, the connection is cut a moment later, in
            // the middle of another one.
            while let Ok(number) = finished.recv() {
                if cuts < CUTS && number % 7 == 3 {
                    std::thread::park_timeout(std::time::Duration::from_millis(number * 13 % 41));
                    for pid in far.connections() {
                        process::signal(pid, process::Signal::KILL);
                        cuts += 1;
                    }
                }
            }
            cuts
        });
        for number in 0..100_u64 {
            let lines = number * 37 % 900;
            let command = format!("seq {lines}; (exit {})", number % 120);
            let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}));
            let expected: String = (1..=lines).map(|line| format!("{line}\n")).collect();
            let found = (&ran["stdout"], &ran["exit_code"]);
            assert_eq!(found, (&json!(expected), &json!(number % 120)), "{number}");
            done.send(number).unwrap();
        }
        drop(done);
        assert!(cutter.join().unwrap() >= CUTS, "connections were cut");
    });
    daemon.end();
    far.assert_no_leftovers();
}

/// A machine that is out of reach when the daemon starts: its sessions are known, and nobody waits for them.
#[test]
fn sessions_out_of_reach_are_known_and_hold_nobody_up() {
    let Some(mut far) = Far::new() else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "x=kept"}));
    daemon.kill();
    far.stop();
    let daemon = Daemon::start(&home, &far);
    let listed = daemon.ok(m::SessionList::NAME, json!({}));
    let session = &listed["sessions"][0];
    assert_eq!((&session["name"], &session["unresponsive"]), (&json!("s"), &json!(true)), "{listed}");
    let info = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}));
    assert_eq!(info["unresponsive"], true, "{info}");
    daemon.fails(m::SessionInfo::NAME, json!({"session_id": "nobody"}), "SESSION_NOT_FOUND");
    daemon.fails(m::SessionCreate::NAME, json!({"name": "s"}), "NAME_TAKEN");
    let waiting = daemon.begin(m::ExecRun::NAME, json!({"session_id": "s", "command": "echo $x"}));
    far.start();
    let ran = waiting.answer().unwrap();
    assert_eq!(ran["stdout"], "kept\n", "{ran}");
    daemon.end();
    far.assert_no_leftovers();
}

#[test]
fn isolation_is_enforced_over_there() {
    let Some(far) = Far::new() else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    let over_there = far.dir.path().join("home");
    let (work, secret) = (over_there.join("work"), over_there.join("secret"));
    std::fs::create_dir(&work).unwrap();
    std::fs::write(&secret, "secret").unwrap();
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s", "isolation": "workspace", "working_dir": work}));
    let info = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}));
    assert_eq!(info["isolation"]["requested"]["profile"], "workspace", "{info}");
    let command = format!("echo in >f; cat f; cat {}", secret.display());
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}));
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("in\n"), &json!(1)), "{ran}");
    assert_eq!(std::fs::read_to_string(work.join("f")).unwrap(), "in\n");
    daemon.end();
    far.assert_no_leftovers();
}

/// What the next session runs outside of any isolation.
#[test]
fn an_isolated_session_cannot_change_the_host_program() {
    let Some(far) = Far::new() else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    let over_there = far.dir.path().join("home");
    let isolation = json!({"profile": "workspace", "write": [over_there]});
    let create = json!({"name": "s", "isolation": isolation, "working_dir": over_there});
    daemon.ok(m::SessionCreate::NAME, create);
    let command = "echo x >seen; cd cache; ls trl; for f in trl/host-*; do echo x >$f; done; mv trl other || mv ../cache ../c";
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}));
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!(""), &json!(1)), "{ran}");
    assert!(over_there.join("seen").exists());
    let programs: Vec<_> = std::fs::read_dir(over_there.join("cache/trl")).unwrap().flatten().collect();
    assert!(programs.len() == 1 && programs[0].metadata().unwrap().len() > 1000, "{programs:?}");
    daemon.end();
    far.assert_no_leftovers();
}

#[test]
fn a_host_program_that_was_removed_over_there_is_brought_again() {
    let Some(far) = Far::with(Sharing::None) else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "x=kept"}));
    let cache = far.dir.path().join("home/cache/trl");
    std::fs::remove_dir_all(&cache).unwrap();
    daemon.ok(m::SessionCreate::NAME, json!({"name": "t"}));
    daemon.ok(m::ExecRun::NAME, json!({"session_id": "t", "command": "true"}));
    // A connection that breaks needs the program, too.
    std::fs::remove_dir_all(&cache).unwrap();
    for pid in far.connections() {
        process::signal(pid, process::Signal::KILL);
    }
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "echo $x"}));
    assert_eq!(ran["stdout"], "kept\n", "{ran}");
    daemon.end();
    far.assert_no_leftovers();
}

#[test]
fn a_machine_of_another_architecture_is_refused_with_both_named() {
    let Some(far) = Far::new() else { return };
    let uname = "#!/bin/sh\ncase $1 in -s) echo Linux;; *) echo mips64;; esac\n";
    write(&far.dir.path().join("far-bin/uname"), uname, 0o755);
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("mips64") && message.contains(std::env::consts::ARCH), "{message}");
    daemon.end();
    far.assert_no_leftovers();
}

#[test]
fn a_host_program_that_does_not_arrive_whole_is_told_and_leaves_nothing() {
    let Some(far) = Far::new() else { return };
    let cat = far.dir.path().join("far-bin/cat");
    let home = Home::new();
    let daemon = Daemon::start(&home, &far);
    let full = "#!/bin/sh\nhead -c 1000; echo 'cat: write error: No space left on device' >&2; exit 1\n";
    for (program, said) in [(full, "free some"), ("#!/bin/sh\nhead -c 1000\n", "whole")] {
        write(&cat, program, 0o755);
        let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
        assert!(message.contains(said), "{message}");
        let cache = far.dir.path().join("home/cache/trl");
        assert_eq!(std::fs::read_dir(cache).unwrap().count(), 0, "a part of the program is left");
    }
    std::fs::remove_file(&cat).unwrap();
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    daemon.end();
    far.assert_no_leftovers();
}

/// The same machine for a daemon with another host program, or with none but itself.
struct Bringing<'a>(&'a Far, Option<PathBuf>);

impl World for Bringing<'_> {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        self.0.backend_with(config, self.1.clone())
    }

    fn kill_host(&self, info: &Value) {
        self.0.kill_host(info);
    }

    fn assert_no_leftovers(&self) {
        self.0.assert_no_leftovers();
    }
}

#[test]
fn without_a_static_host_program_trl_itself_is_brought() {
    let Some(far) = Far::new() else { return };
    let (home, cache) = (Home::new(), far.dir.path().join("home/cache/trl"));
    let daemon = Daemon::start(&home, &Bringing(&far, Some("/no/such/program".into())));
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("/no/such/program") && message.contains("build-host"), "{message}");
    daemon.end();
    let daemon = Daemon::start(&home, &Bringing(&far, Some("/bin/false".into())));
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("does not run there"), "{message}");
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0, "a program that does not run is left");
    daemon.end();
    let daemon = Daemon::start(&home, &Bringing(&far, None));
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "echo there"}));
    assert_eq!(ran["stdout"], "there\n", "{ran}");
    daemon.end();
    far.assert_no_leftovers();
}

#[test]
fn what_ssh_refuses_is_told_with_a_remedy() {
    let Some(far) = Far::with(Sharing::None) else { return };
    let home = Home::new();
    let known = far.dir.path().join("known_hosts");
    let right = std::fs::read_to_string(&known).unwrap();
    let daemon = Daemon::start(&home, &far);
    write(&known, "", 0o600);
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("not known") && message.contains("connect once"), "{message}");
    let user_key = std::fs::read_to_string(far.dir.path().join("user_key.pub")).unwrap();
    write(&known, &format!("[127.0.0.1]:{} {user_key}", far.port), 0o600);
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("ssh-keygen -R"), "{message}");
    write(&known, &right, 0o600);
    write(&far.dir.path().join("authorized_keys"), "", 0o600);
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("Permission denied") && message.contains("keys"), "{message}");
    assert_eq!(daemon.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    daemon.end();
}
