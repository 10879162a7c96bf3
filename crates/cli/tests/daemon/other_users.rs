//! Other users of the machine, and other homes of the same user: who is not spoken to, and who is not answered.
//!
//! Other users are played by processes that give up root, so most of this needs root.

#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::process::{self, Signal};
use trl_testkit::{Daemon, GUARD, Shell, daemon, needs, trl, wait_until};

const NOBODY: u32 = 65534;
const WHY: &str = "start processes of other users";

/// Gives up root, then does what its arguments say.
const STRANGER: &str = r#"
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
what, path = sys.argv[1:3]
s = socket.socket(socket.AF_UNIX)
if what == "ask":
    s.connect(path)
    s.sendall(bytes.fromhex(sys.argv[3]))
    s.settimeout(20)
    sys.stdout.write(s.recv(65536).decode(errors="replace"))
else:
    s.bind(path); os.chmod(path, 0o777); s.listen(16)
    print("ready", flush=True)
    while True:
        c, _ = s.accept()
        c.settimeout(2)
        try: data = c.recv(65536)
        except OSError: data = b""
        os.write(1, b"heard %d\n" % len(data))
        c.close()
"#;

/// A process of another user that listens, and tells how much it hears. Ends with this value.
struct Listener(Child);

impl Listener {
    fn at(path: &Path) -> Listener {
        let mut child = Command::new("python3")
            .args(["-c", STRANGER, "listen"])
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child.stdout = Some(said.into_inner());
        Listener(child)
    }

    /// Ends it; all that it said.
    fn heard(mut self) -> String {
        process::signal(self.0.id() as i32, Signal::KILL);
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        process::signal(self.0.id() as i32, Signal::KILL);
        let _status = self.0.wait();
    }
}

fn ask_as_nobody(path: &Path, bytes: &[u8]) -> Output {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Command::new("python3").args(["-c", STRANGER, "ask"]).arg(path).arg(hex).output().unwrap()
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A client whose first request would carry its environment.
fn client(dir: &Path, socket: &Path) -> Command {
    let mut command = Command::new(trl!());
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", dir)
        .env("PRECIOUS", "secret-of-the-caller")
        .arg("--socket")
        .arg(socket)
        .args(["--no-start", "run", "echo hi"])
        .stdin(Stdio::null());
    command
}

/// A second daemon that is expected not to start; if it does, it ends after a while.
fn serve(daemon: &Daemon) -> Command {
    let mut command = daemon.command();
    command.args(["serve", "--exit-idle", "2"]);
    command
}

/// Each socket's daemon has a directory of its own for its hosts, or the runtime directory itself.
fn host_socket(run: &Path, session: &str) -> PathBuf {
    let dirs = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let mut found = dirs.chain([run.to_owned()]).map(|dir| dir.join(format!("hosts/{session}.sock")));
    found.find(|socket| socket.exists()).unwrap()
}

#[test]
fn another_user_is_turned_away() {
    if !needs::root(WHY) {
        return;
    }
    let daemon = daemon!();
    let session = daemon.session(Shell::Bash);
    // The way is opened on purpose: what is left is the check of the peer.
    let host = host_socket(&daemon.home().join("run"), &session.id);
    let (run, home) = (daemon.home().join("run"), daemon.home());
    let dirs = [
        home.parent().unwrap(),
        &home,
        &run,
        host.parent().unwrap().parent().unwrap(),
        host.parent().unwrap(),
    ];
    for path in dirs.into_iter().chain([&*daemon.socket(), &host]) {
        open_to_all(path);
    }
    let answer = ask_as_nobody(&daemon.socket(), b"{\"id\":1,\"method\":\"system.ping\"}\n");
    let said = String::from_utf8_lossy(&answer.stdout);
    assert!(said.contains("AUTH_FAILED") && !said.contains("uptime"), "{answer:?}");
    // A host answers every message of a daemon, even one that it cannot read.
    let frame = b"\x03\0\0\0J{}";
    let mut ours = UnixStream::connect(&host).unwrap();
    ours.write_all(frame).unwrap();
    assert!(ours.read(&mut [0; 64]).unwrap() > 0);
    let answer = ask_as_nobody(&host, frame);
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "", "{answer:?}");
    assert!(daemon.connect().ok(m::SystemPing::NAME, json!({}))["version"].is_string());
    for path in dirs {
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn nothing_is_sent_to_a_socket_of_another_user() {
    if !needs::root(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    open_to_all(dir.path());
    // In their own directory below a sticky one, as /tmp/trl-$UID would be.
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let listener = Listener::at(&theirs.join("trl.sock"));
    let output = client(dir.path(), &theirs.join("trl.sock")).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(stderr(&output).contains(&format!("{} belongs to user 65534", theirs.display())), "{output:?}");
    assert!(stderr(&output).contains("XDG_RUNTIME_DIR or TRL_HOME"), "{output:?}");
    assert_eq!(listener.heard(), "");
    // Their socket in the sticky directory itself.
    let listener = Listener::at(&dir.path().join("trl.sock"));
    let output = client(dir.path(), &dir.path().join("trl.sock")).output().unwrap();
    assert!(stderr(&output).contains("trl.sock belongs to user 65534"), "{output:?}");
    assert_eq!(listener.heard(), "");
    // Their link, which leads to a place of ours until they make another one.
    let (link, ours) = (dir.path().join("link"), dir.path().join("ours"));
    fs::create_dir(&ours).unwrap();
    symlink(&ours, &link).unwrap();
    lchown(&link, Some(NOBODY), Some(NOBODY)).unwrap();
    let output = client(dir.path(), &link.join("trl.sock")).output().unwrap();
    assert!(stderr(&output).contains(&format!("{} belongs to user 65534", link.display())), "{output:?}");
}

/// Root can do everything anyway, and clears up after others.
#[test]
fn root_is_answered_by_the_daemon_and_the_hosts_of_another_user() {
    if !needs::root(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(1000), Some(1000)).unwrap();
    let mut daemon = Command::new("setpriv")
        .args(["--reuid=1000", "--regid=1000", "--clear-groups"])
        .arg(trl!())
        .args(["serve", "--exit-idle", "2"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TRL_HOME", dir.path())
        .current_dir("/")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let socket = dir.path().join("run/trl.sock");
    wait_until("the daemon listens", GUARD, || UnixStream::connect(&socket).is_ok());
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(b"{\"id\":1,\"method\":\"session.create\",\"params\":{\"shell\":\"sh\"}}\n").unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    let made: serde_json::Value = serde_json::from_str(&line).unwrap();
    let id = made["data"]["session_id"].as_str().unwrap_or_else(|| panic!("{line}"));
    let mut host = UnixStream::connect(host_socket(&dir.path().join("run"), id)).unwrap();
    host.write_all(b"\x03\0\0\0J{}").unwrap();
    assert!(host.read(&mut [0; 64]).unwrap() > 0, "a host answers every message");
    drop(host);
    stream.write_all(b"{\"id\":2,\"method\":\"system.shutdown\"}\n").unwrap();
    assert!(daemon.wait().unwrap().success());
}

/// Clients that start a daemon take turns by a file in the runtime directory.
#[test]
fn no_daemon_is_started_from_a_directory_of_another_user() {
    if !needs::root(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let output = Command::new(trl!())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", dir.path())
        .arg("--socket")
        .arg(dir.path().join("trl.sock"))
        .arg("--runtime-dir")
        .arg(&theirs)
        .args(["run", "echo hi"])
        .output()
        .unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(stderr(&output).contains("belongs to another user"), "{output:?}");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0, "nothing is put there");
}

#[test]
fn nothing_is_sent_to_a_server_of_another_user() {
    if !needs::root(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("trl.sock");
    open_to_all(dir.path());
    let listener = Listener::at(&socket);
    // All of the path is ours now; only who listens is not.
    chown(&socket, Some(0), Some(0)).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let output = client(dir.path(), &socket).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert!(stderr(&output).contains("user 65534 is at the other end"), "{output:?}");
    let said = listener.heard();
    assert!(said.lines().all(|line| line == "heard 0"), "{said}");
}

#[test]
fn a_directory_that_others_can_write_to_is_refused_by_client_and_daemon() {
    let daemon = daemon!();
    let dir = daemon.socket().parent().unwrap().to_owned();
    for mode in [0o777, 0o770] {
        fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        let output = daemon.trl(&["run", "echo hi"]);
        assert!(!output.status.success(), "{output:?}");
        assert!(stderr(&output).contains("can be written by other users"), "{output:?}");
        assert!(stderr(&output).contains("chmod go-w"), "{output:?}");
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
    assert!(daemon.trl(&["run", "echo hi"]).status.success());
    // A daemon has two kinds of sockets: its own, and those of its hosts.
    let open = tempfile::tempdir().unwrap();
    open_to_all(open.path());
    let (ours, theirs) = (dir.join("second.sock"), open.path().join("new/second.sock"));
    for (socket, runtime) in [(&theirs, dir.join("run")), (&ours, open.path().join("run"))] {
        let output =
            serve(&daemon).arg("--socket").arg(socket).arg("--runtime-dir").arg(runtime).output().unwrap();
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        assert!(stderr(&output).contains("can be written by other users"), "{output:?}");
    }
    assert!(!open.path().join("new").exists(), "nothing is made in such a place");
}

#[test]
fn a_host_that_is_another_users_is_not_adopted() {
    if !needs::root(WHY) {
        return;
    }
    let mut daemon = Daemon::builder(trl!()).start();
    let run = fs::read_dir(daemon.home().join("run")).unwrap().next().unwrap().unwrap().path();
    daemon.kill9();
    let socket = run.join("hosts/s-0badcafe.sock");
    let dirs = [
        daemon.home().parent().unwrap().to_owned(),
        daemon.home(),
        daemon.home().join("run"),
        run.clone(),
        run.join("hosts"),
    ];
    dirs.iter().for_each(|dir| open_to_all(dir));
    let listener = Listener::at(&socket);
    for dir in &dirs {
        fs::set_permissions(dir, Permissions::from_mode(0o700)).unwrap();
    }
    daemon.restart();
    assert_eq!(daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    assert!(daemon.log().contains("user 65534 is at the other end"), "{}", daemon.log());
    let said = listener.heard();
    assert!(said.lines().all(|line| line == "heard 0"), "{said}");
    fs::remove_file(&socket).unwrap();
}

#[test]
fn tokens_and_state_of_another_user_are_not_used() {
    if !needs::root(WHY) {
        return;
    }
    let daemon = Daemon::builder(trl!()).prepare();
    let (tokens, state) = (daemon.work().join("tokens"), daemon.work().join("state"));
    fs::write(&tokens, "them admin a-token-that-they-know-0123456789\n").unwrap();
    fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(&state).unwrap();
    for path in [&tokens, &state] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // A link of theirs to what is ours, and one of ours to what is theirs.
    let (by_them, to_them) = (daemon.work().join("by-them"), daemon.work().join("to-them"));
    symlink(daemon.work().join("own"), &by_them).unwrap();
    symlink(&state, &to_them).unwrap();
    fs::create_dir(daemon.work().join("own")).unwrap();
    lchown(&by_them, Some(NOBODY), Some(NOBODY)).unwrap();
    for args in [
        &["--http", "127.0.0.1:0", "--tokens", "tokens"][..],
        &["--state-dir", "state"],
        &["--state-dir", "by-them"],
        &["--state-dir", "to-them"],
    ] {
        let output = serve(&daemon).args(args).output().unwrap();
        assert!(matches!(output.status.code(), Some(69 | 78)), "{args:?}: {output:?}");
        assert!(stderr(&output).contains("belongs to user 65534"), "{output:?}");
    }
}

/// Settings choose programs that run as this user, and who may ask for what.
#[test]
fn settings_that_others_could_have_written_or_can_read_a_token_in_are_refused() {
    if !needs::root(WHY) {
        return;
    }
    let daemon = Daemon::builder(trl!()).prepare();
    let token = "http = \"127.0.0.1:0\"\nauth_token = \"a-token-that-is-long-enough-0123456789\"\n";
    for (text, mode, owner, problem) in [
        (token, 0o644, 0, "others can read it (mode 0644)"),
        (token, 0o640, 0, "others can read it (mode 0640)"),
        ("", 0o666, 0, "others can write it (mode 0666)"),
        ("", 0o600, NOBODY, "belongs to user 65534"),
    ] {
        let file = daemon.work().join("config.toml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        chown(&file, Some(owner), Some(owner)).unwrap();
        let output = serve(&daemon).args(["--config", "config.toml"]).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{problem}: {output:?}");
        assert!(stderr(&output).contains(problem), "{problem}: {output:?}");
        fs::remove_file(&file).unwrap();
    }
}

/// Not even to the log: a link there could lead to any file of ours.
#[test]
fn nothing_is_written_into_a_state_directory_of_another_user() {
    if !needs::root(WHY) {
        return;
    }
    let daemon = Daemon::builder(trl!()).prepare();
    let (theirs, ours) = (daemon.work().join("theirs"), daemon.work().join("ours"));
    fs::create_dir(&theirs).unwrap();
    fs::write(&ours, "").unwrap();
    symlink(&ours, theirs.join("daemon.log")).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let refused = |state: &Path| {
        let output = serve(&daemon).arg("--detached").arg("--state-dir").arg(state).output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(fs::read_to_string(&ours).unwrap(), "");
    };
    refused(&theirs);
    fs::remove_file(theirs.join("daemon.log")).unwrap();
    refused(&theirs);
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    // Nor to what is no file in a directory of ours, or through a link in it.
    let own = daemon.work().join("state");
    fs::create_dir(&own).unwrap();
    symlink(&ours, own.join("daemon.log")).unwrap();
    refused(&own);
    fs::remove_file(own.join("daemon.log")).unwrap();
    let made = Command::new("mkfifo").arg(own.join("daemon.log")).status().unwrap();
    assert!(made.success());
    refused(&own);
}

/// The system's directories belong to root, and there they seem to belong to the user who stands for everybody
/// that the namespace does not know. It is no reason to refuse them.
#[test]
fn a_user_namespace_without_root_is_used_like_any_other_place() {
    if !needs::root(WHY) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(1000), Some(1000)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=1000", "--regid=1000", "--clear-groups", "unshare", "--user", "--map-user=1000"])
        .args(["sh", "-c", "$TRL run 'echo hi' && $TRL shutdown"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TRL_HOME", dir.path().join("home"))
        .env("TRL", trl!())
        .current_dir("/")
        .output()
        .unwrap();
    if stderr(&output).contains("unshare failed") || stderr(&output).contains("unshare: ") {
        return needs::skip("ordinary users cannot make user namespaces here");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hi\n", "{output:?}");
}

/// Runs a script with an empty /tmp of its own. `$TRL` is the binary.
fn with_own_tmp(script: &str) -> Option<Output> {
    if !needs::root("mount a /tmp of its own") {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc"]);
    // The binary itself may lie in /tmp.
    command.arg(format!(
        "mount -t tmpfs none /mnt\ntouch /mnt/trl\nmount --bind \"$TRL\" /mnt/trl\nTRL=/mnt/trl\n\
         mount -t tmpfs -o mode=1777 none /tmp\nexport HOME=/tmp/a\nmkdir /tmp/a /tmp/b\n{script}"
    ));
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TRL", trl!());
    let output = command.current_dir("/").stdin(Stdio::null()).output().unwrap();
    if stderr(&output).contains("unshare failed") || stderr(&output).contains("mount: ") {
        needs::skip("it cannot mount a /tmp of its own here");
        return None;
    }
    Some(output)
}

#[test]
fn a_default_directory_that_another_user_made_is_refused() {
    let Some(output) = with_own_tmp(
        r#"mkdir -m 777 /tmp/trl-0; chown 65534 /tmp/trl-0
           if $TRL run 'echo hi'; then echo used; fi
           if $TRL serve; then echo served; fi
           find /tmp/trl-0 -mindepth 1"#,
    ) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{output:?}");
    assert!(stderr(&output).contains("/tmp/trl-0 belongs to user 65534"), "{output:?}");
    assert!(stderr(&output).contains("XDG_RUNTIME_DIR or TRL_HOME"), "{output:?}");
}

#[test]
fn homes_of_one_user_have_daemons_of_their_own() {
    let Some(output) = with_own_tmp(
        r#"$TRL run 'x=of-a; echo "$x"'
           test -S /tmp/trl-0/trl.sock
           HOME=/tmp/b $TRL run 'echo "${x-none}"; x=of-b'
           $TRL run 'echo "$x"'
           HOME=/tmp/b $TRL run 'echo "$x"'
           HOME=/tmp/b $TRL --socket /tmp/trl-0/trl.sock run 'echo "$x, by name"'
           $TRL --json ls | grep -c session_id
           $TRL shutdown
           HOME=/tmp/b $TRL run 'echo "$x, still"'
           HOME=/tmp/b $TRL shutdown
           find /tmp/a/.local /tmp/b/.local -name mail.db -o -name daemon.log | sort"#,
    ) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "of-a\nnone\nof-a\nof-b\nof-a, by name\n1\nof-b, still\n";
    assert!(output.status.success() && said.starts_with(expected), "{output:?}");
    for home in ["/tmp/a/.local/state/trl/daemon.log", "/tmp/b/.local/state/trl/daemon.log"] {
        assert!(said.contains(home), "{said}");
    }
}
