//! What lies outside of a cage, for `escapes.c` to reach: files, processes, sockets, shared memory, keys.

#![expect(clippy::expect_used, reason = "that is how a test fails")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use tempfile::TempDir;
use trl_testkit::Daemon;

pub(crate) const SECRET: &str = "the-secret-of-the-outside";
/// Who runs an ordinary user's daemon in a test that root runs.
pub(crate) const NOBODY: u32 = 65534;

#[derive(Debug)]
pub(crate) struct Outside {
    dir: TempDir,
    tmp: TempDir,
    program: TempDir,
    victim: Child,
    listeners: Listeners,
    words: Vec<String>,
}

/// Open for as long as somebody may knock.
#[derive(Debug)]
struct Listeners {
    _unix: Vec<UnixListener>,
    _tcp: Vec<TcpListener>,
    _terminals: Vec<OwnedFd>,
    run_socket: Option<PathBuf>,
}

impl Outside {
    /// Belongs to the daemon's user.
    pub(crate) fn around(daemon: &Daemon) -> Outside {
        let user = daemon.user();
        let dir =
            tempfile::Builder::new().prefix("trl-outside-").tempdir_in("/var/tmp").expect("a directory");
        let tmp = tempfile::Builder::new().prefix("trl-outside-").tempdir_in("/tmp").expect("a directory");
        for name in ["secret", "to-unlink", "to-rename", "to-take", "to-truncate"] {
            fs::write(dir.path().join(name), SECRET).expect("a file");
        }
        fs::write(tmp.path().join("file"), SECRET).expect("a file");
        let ssh = daemon.user_home().join(".ssh");
        fs::create_dir_all(&ssh).expect("a directory");
        fs::write(ssh.join("id_test"), SECRET).expect("a file");
        let program = build();
        let number = u32::from(
            dir.path()
                .as_os_str()
                .as_encoded_bytes()
                .iter()
                .fold(7_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)),
        ) + std::process::id() * 256;
        let (listeners, mut words) = listen(dir.path(), tmp.path(), number, user);
        for path in [dir.path(), tmp.path(), &ssh] {
            give(path, user);
        }
        let place = |path: &Path| path.display().to_string();
        words.extend([
            format!("out={}", place(dir.path())),
            format!("home={}", place(&daemon.user_home())),
            format!("tmp_file={}", place(&tmp.path().join("file"))),
            format!("state={}", place(&daemon.home().join("state"))),
            format!("runtime={}", place(&daemon.home().join("run"))),
            format!("socket={}", place(&daemon.socket())),
            format!("daemon={}", daemon.pid()),
            format!("key={}", number % 1_000_000 + 1),
            format!("shm=trl-outside-{number}"),
            format!("mq=trl-outside-{number}"),
            format!("keyname=trl-outside-{number}"),
        ]);
        let victim = start_victim(&program.path().join("escapes"), &words, user);
        words.push(format!("victim={}", victim.id()));
        Outside { dir, tmp, program, victim, listeners, words }
    }

    /// The program with the attempts; to be copied where it can be started.
    pub(crate) fn program(&self) -> PathBuf {
        self.program.path().join("escapes")
    }

    /// What the program has to know.
    pub(crate) fn words(&self) -> Vec<String> {
        self.words.clone()
    }

    /// Whether nothing was changed.
    pub(crate) fn is_untouched(&self) -> bool {
        let names = ["secret", "to-unlink", "to-rename", "to-take", "to-truncate"];
        let is_whole = |path: PathBuf| fs::read_to_string(path).is_ok_and(|text| text == SECRET);
        names.iter().all(|name| is_whole(self.dir.path().join(name)))
            && is_whole(self.tmp.path().join("file"))
            && fs::read_dir(self.dir.path()).is_ok_and(|entries| entries.count() == names.len() + 1)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The end of its input tells it to tidy up.
        drop(self.victim.stdin.take());
        self.victim.wait().ok();
        if let Some(path) = &self.listeners.run_socket {
            fs::remove_file(path).ok();
        }
    }
}

fn build() -> TempDir {
    let place = tempfile::Builder::new().prefix("trl-program-").tempdir_in("/var/tmp").expect("a directory");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/isolation/escapes.c");
    let program = place.path().join("escapes");
    let cc = |how: &[&str]| {
        let built =
            Command::new("cc").args(["-O1", "-w"]).args(how).arg("-o").arg(&program).arg(source).status();
        built.is_ok_and(|status| status.success())
    };
    // Without a static C library, the dynamic one is part of the system that is visible everywhere.
    assert!(cc(&["-static"]) || cc(&[]), "cc builds {source}");
    place
}

fn give(dir: &Path, user: u32) {
    chown(dir, Some(user), Some(user)).expect("its owner");
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        chown(entry.path(), Some(user), Some(user)).expect("its owner");
    }
}

fn start_victim(program: &Path, words: &[String], user: u32) -> Child {
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()])
        .arg(program)
        .arg("prepare")
        .args(words)
        .env("SECRET_OF_VICTIM", "x")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut victim = command.spawn().expect("a process to attack");
    let mut line = String::new();
    BufReader::new(victim.stdout.take().expect("its output")).read_line(&mut line).expect("its word");
    assert_eq!(line, "ready\n");
    victim
}

fn listen(dir: &Path, tmp: &Path, number: u32, user: u32) -> (Listeners, Vec<String>) {
    let name = format!("trl-outside-{number}");
    let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
    let mut unix = vec![
        UnixListener::bind(dir.join("socket")).expect("a socket"),
        UnixListener::bind(tmp.join("agent")).expect("a socket"),
        UnixListener::bind_addr(&abstract_name).expect("a socket"),
    ];
    let run_socket = PathBuf::from(format!("/run/{name}.sock"));
    let run_socket = UnixListener::bind(&run_socket).ok().map(|listener| {
        unix.push(listener);
        fs::set_permissions(&run_socket, fs::Permissions::from_mode(0o666)).expect("permissions");
        run_socket
    });
    let first = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = first.local_addr().expect("its address").port();
    let other = Ipv4Addr::new(127, 0, 0, 53);
    let mut tcp = vec![first];
    tcp.extend(TcpListener::bind(SocketAddrV4::new(other, port)));
    let sixth = TcpListener::bind(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0));
    let port6 =
        sixth.as_ref().ok().and_then(|port| port.local_addr().ok()).map_or(1, |address| address.port());
    tcp.extend(sixth);
    let udp = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let udp_port = udp.local_addr().expect("its address").port();
    echo(udp);
    UdpSocket::bind(SocketAddrV4::new(other, udp_port)).into_iter().for_each(echo);
    let (terminals, terminal) = terminals(user);
    let words = vec![
        format!("terminal={terminal}"),
        format!("abstract={name}"),
        format!("tmp_socket={}", tmp.join("agent").display()),
        format!("run_socket=/run/{name}.sock"),
        format!("port={port}"),
        format!("port6={port6}"),
        format!("udp={udp_port}"),
    ];
    (Listeners { _unix: unix, _tcp: tcp, _terminals: terminals, run_socket }, words)
}

/// A terminal of the user's, with a number that no terminal of a session's own has.
fn terminals(user: u32) -> (Vec<OwnedFd>, String) {
    let mut held = Vec::new();
    loop {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        unlockpt(&terminal).expect("a terminal");
        let name = ptsname(&terminal, Vec::new()).expect("its name").into_string().expect("its name");
        held.push(terminal);
        if name
            .rsplit('/')
            .next()
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: u32| number >= 8)
        {
            chown(&name, Some(user), None).expect("its owner");
            return (held, name);
        }
    }
}

/// Sends back whatever comes, until the test is over.
fn echo(socket: UdpSocket) {
    std::thread::spawn(move || {
        let mut text = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut text) {
            socket.send_to(&text[..length], from).ok();
        }
    });
}
