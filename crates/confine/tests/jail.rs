//! A cage as the host uses it: a real pid 1, a real shell, real mounts.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what the tests share is test code too")]

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use trl_confine::linux::init::{Ending, Program, StreamFrom};
use trl_confine::linux::jail::{Jail, Strength};
use trl_confine::linux::{Extras, Part, look, probe};
use trl_confine::plan::{self, Setting};
use trl_protocol::isolation::{Isolation, Profile};

struct Cage {
    jail: Jail,
    workspace: tempfile::TempDir,
}

fn cage(strength: Strength, isolation: &Isolation) -> Cage {
    cage_with(strength, isolation, None)
}

fn cage_with(strength: Strength, isolation: &Isolation, io_dir: Option<PathBuf>) -> Cage {
    let workspace = tempfile::tempdir().unwrap();
    let setting = Setting {
        workspace: workspace.path().canonicalize().unwrap(),
        working_dir: workspace.path().to_owned(),
        home: Some(PathBuf::from("/root")),
        io_dir,
        ..Setting::default()
    };
    let plan = plan::session(isolation, &setting, &look).unwrap();
    let jail = Jail::enter(&plan, strength, Extras::default()).unwrap_or_else(|step| panic!("{step}"));
    Cage { jail, workspace }
}

fn sh(script: &str, dir: &Path) -> Program {
    Program {
        path: b"/bin/sh".to_vec(),
        arg0: b"sh".to_vec(),
        arguments: vec![b"-c".to_vec(), script.as_bytes().to_vec()],
        environment: vec![b"PATH=/usr/bin:/bin".to_vec()],
        directories: vec![dir.as_os_str().as_encoded_bytes().to_vec()],
    }
}

impl Cage {
    /// What a script prints, and how it ends.
    fn run(&mut self, script: &str) -> (String, Ending) {
        let (mut read, write) = std::io::pipe().unwrap();
        let streams = [StreamFrom::Null, StreamFrom::Given, StreamFrom::Given];
        let program = sh(script, self.workspace.path());
        let spawned = self.jail.spawn(&program, streams, (24, 80), &[write.as_fd(), write.as_fd()]).unwrap();
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        (text, self.end_of(spawned.pid))
    }

    fn end_of(&mut self, pid: i32) -> Ending {
        loop {
            assert!(self.jail.hear(), "pid 1 is gone");
            match self.jail.next_ended() {
                Some((ended, how)) if ended == pid => return how,
                Some(_) => {}
                None => {
                    let mut fds = [rustix::event::PollFd::new(&self.jail, rustix::event::PollFlags::IN)];
                    rustix::event::poll(&mut fds, None).unwrap();
                }
            }
        }
    }

    fn prints(&mut self, script: &str) -> String {
        self.run(script).0.trim().to_owned()
    }
}

fn strengths() -> Vec<Strength> {
    match probe::namespaces() {
        Ok(()) => vec![Strength::Namespaces, Strength::InPlace],
        Err(step) => {
            trl_testkit::needs::skip(&format!("what needs namespaces: {step}"));
            vec![Strength::InPlace]
        }
    }
}

#[test]
fn a_program_runs_inside_and_its_end_is_heard() {
    for strength in strengths() {
        for profile in [Profile::Workspace, Profile::Strict] {
            let mut cage = cage(strength, &Isolation::of(profile));
            let ended = cage.run("echo out; echo err >&2; exit 7");
            assert_eq!(ended, ("out\nerr\n".to_owned(), Ending::Status(7)), "{strength:?} {profile:?}");
            assert_eq!(cage.run("kill -9 $$").1, Ending::Signal(9), "{strength:?}");
            assert_eq!(cage.prints("echo x > file && cat file && pwd | wc -l"), "x\n1");
            assert_eq!(std::fs::read_to_string(cage.workspace.path().join("file")).unwrap(), "x\n");
        }
    }
}

/// A directory that is exchanged for a link after the plan was made is not followed.
#[test]
fn a_workspace_that_is_replaced_meanwhile_is_refused() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (workspace, secret) = (dir.path().join("work"), dir.path().join("secret"));
    std::fs::create_dir(&workspace).unwrap();
    std::fs::create_dir(&secret).unwrap();
    let setting =
        Setting { workspace: workspace.clone(), working_dir: workspace.clone(), ..Setting::default() };
    let plan = plan::session(&Isolation::of(Profile::Workspace), &setting, &look).unwrap();
    std::fs::remove_dir(&workspace).unwrap();
    std::os::unix::fs::symlink(&secret, &workspace).unwrap();
    if let Err(step) = probe::namespaces() {
        trl_testkit::needs::skip(&format!("{step}"));
        return;
    }
    let step = Jail::enter(&plan, Strength::Namespaces, Extras::default()).unwrap_err();
    assert_eq!(step.part, Part::Given, "{step}");
    // The same on the way to it.
    let plan = plan::session(
        &Isolation::of(Profile::Workspace),
        &Setting { workspace: workspace.join("deep"), ..Setting::default() },
        &look,
    )
    .unwrap();
    std::fs::create_dir(secret.join("deep")).unwrap();
    let step = Jail::enter(&plan, Strength::Namespaces, Extras::default()).unwrap_err();
    assert_eq!(step.part, Part::Given, "{step}");
}

/// What reaches objects of the whole machine without a path, or leaves a program with this user's rights.
#[test]
fn system_calls_that_lead_around_the_layers_fail() {
    // SAFETY: an object in shared memory, removed at the end.
    let shared = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600) };
    assert!(shared >= 0);
    for strength in strengths() {
        let mut cage = cage(strength, &Isolation::of(Profile::Workspace));
        let python = |call: &str| {
            format!(
                "/usr/bin/python3 -c 'import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = {call}; print(\"done\" if r >= 0 else os.strerror(ctypes.get_errno()))'"
            )
        };
        if cage.run(&python("0")).1 != Ending::Status(0) {
            trl_testkit::needs::skip("there is no python3");
            break;
        }
        // Of seccomp where nothing else holds it, of the namespace otherwise.
        assert_ne!(cage.prints(&python(&format!("c.shmctl({shared}, 0, None)"))), "done", "{strength:?}");
        assert_ne!(cage.prints(&python(&format!("c.shmat({shared}, None, 0)"))), "done", "{strength:?}");
        let refused = "Operation not permitted";
        assert_eq!(cage.prints(&python("c.syscall(467, -100, b\"/\", 1, None, 0)")), refused);
        assert_eq!(cage.prints(&python("c.syscall(470, 0, 0, 0)")), "Function not implemented");
        assert_eq!(cage.prints(&python("c.socketpair(16, 3, 0, (ctypes.c_int * 2)())")), refused);
        let leave = "echo x > left; chmod 4755 left 2>&1; chmod 2755 left 2>&1; stat -c %a left";
        assert!(cage.prints(leave).ends_with("644"), "{strength:?}");
        assert_eq!(cage.prints("chmod 1700 left && chmod 755 left && stat -c %a left"), "755");
        // The kernel's settings belong to root, which needs no capability to write them.
        let settings = "(: >> /proc/sys/kernel/core_pattern) 2>/dev/null && echo written || echo refused";
        assert_eq!(cage.prints(settings), "refused", "{strength:?}");
    }
    // SAFETY: removes what was made above.
    unsafe { libc::shmctl(shared, libc::IPC_RMID, std::ptr::null_mut()) };
}

#[test]
fn without_namespaces_the_daemons_own_files_are_not_in_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().canonicalize().unwrap().join("own");
    std::fs::create_dir(&own).unwrap();
    let workspace = dir.path().canonicalize().unwrap();
    let setting =
        Setting { working_dir: workspace.clone(), workspace, hidden: vec![own], ..Setting::default() };
    let plan = plan::session(&Isolation::of(Profile::Workspace), &setting, &look).unwrap();
    let step = Jail::enter(&plan, Strength::InPlace, Extras::default()).unwrap_err();
    assert_eq!(step.part, Part::Given, "{step}");
}

#[test]
fn nothing_else_is_there() {
    let outside = tempfile::Builder::new().prefix("outside").tempdir_in("/var/tmp").unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    for strength in strengths() {
        let mut cage = cage(strength, &Isolation::of(Profile::Workspace));
        let secret = secret.display();
        assert_eq!(cage.prints(&format!("cat {secret} 2>/dev/null || echo refused")), "refused");
        assert_eq!(cage.prints(&format!("(echo x > {secret}) 2>/dev/null || echo refused")), "refused");
        assert_eq!(cage.prints("ls /root/.ssh 2>/dev/null || echo refused"), "refused");
        assert_eq!(cage.prints("(echo x > /usr/x) 2>/dev/null || echo refused"), "refused");
        let kill = format!("kill -0 {} 2>/dev/null || echo refused", std::process::id());
        assert_eq!(cage.prints(&kill), "refused");
        if strength == Strength::Namespaces {
            assert_eq!(cage.prints("echo $(ls /) $(ls -a /root | wc -l)"), ls_of_root());
            assert_eq!(cage.prints("set -- /proc/[0-9]*; echo $#"), "2");
            assert_eq!(cage.prints("(ls /.layers; cat /proc/1/environ) 2>&1 | grep -c denied"), "2");
        }
    }
}

/// Everything that a plan for this machine shows, and an empty home.
fn ls_of_root() -> String {
    let mut names = vec!["dev", "proc", "root", "sys", "tmp", "var"];
    let shown =
        ["bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "snap", "srv", "usr"];
    names.extend(shown.iter().filter(|name| Path::new("/").join(name).exists()));
    names.extend(Path::new("/run/current-system").exists().then_some("run"));
    names.sort_unstable();
    format!("{} 2", names.join(" "))
}

#[test]
fn descriptors_of_the_host_can_be_opened_by_path() {
    for strength in strengths() {
        let mut cage = cage(strength, &Isolation::of(Profile::Strict));
        let (mut read, write) = std::io::pipe().unwrap();
        let text = rustix::fs::memfd_create(c"text", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&text, b"echo told").unwrap();
        for _ in 0..3 {
            let shown = cage.jail.show(&[write.as_fd(), text.as_fd()]).unwrap();
            let holder = shown[0].path.split('/').nth(2).unwrap();
            let script = format!(". {} > {}; kill -9 {holder}", shown[1].path, shown[0].path);
            let (text, end) = cage.run(&script);
            assert_eq!((text.as_str(), end), ("", Ending::Status(0)), "{strength:?}");
            let mut heard = [0; 5];
            read.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"told\n");
            // Whoever ends the holder ends nothing else.
            cage.jail.conceal(&shown, true);
        }
        let shown = cage.jail.show(&[write.as_fd()]).unwrap();
        drop(write);
        cage.jail.conceal(&shown, true);
        let mut rest = String::new();
        read.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nobody holds it any more");
    }
}

#[test]
fn descriptors_can_be_offered_before_they_are_needed() {
    for strength in strengths() {
        let mut cage = cage(strength, &Isolation::of(Profile::Strict));
        let (mut read, write) = std::io::pipe().unwrap();
        let (mut other_read, other) = std::io::pipe().unwrap();
        let hears = |read: &mut std::io::PipeReader, expected: &str| {
            let mut heard = vec![0; expected.len()];
            read.read_exact(&mut heard).unwrap();
            assert_eq!(String::from_utf8_lossy(&heard), expected, "{strength:?}");
        };
        assert_eq!(cage.jail.take_offer(), None, "nothing was offered");
        cage.jail.offer(&[write.as_fd()]).unwrap();
        // What is shown meanwhile is not taken for it.
        let shown = cage.jail.show(&[other.as_fd()]).unwrap();
        let offered = cage.jail.take_offer().unwrap();
        assert_eq!(cage.jail.take_offer(), None, "it is taken once");
        cage.run(&format!("echo offered > {}; echo shown > {}", offered[0].path, shown[0].path));
        hears(&mut read, "offered\n");
        hears(&mut other_read, "shown\n");
        // One that was not taken gives way to the next, and is let go.
        cage.jail.offer(&[other.as_fd()]).unwrap();
        cage.jail.offer(&[write.as_fd()]).unwrap();
        cage.jail.conceal(&shown, true);
        drop(other);
        let mut rest = String::new();
        other_read.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "nobody holds it any more");
        // Whoever ends the holder ends the offer, which is noticed.
        let holder = offered[0].path.split('/').nth(2).unwrap().to_owned();
        cage.run(&format!("kill -9 {holder}; while kill -0 {holder} 2>/dev/null; do :; done"));
        assert_eq!(cage.jail.take_offer(), None, "the holder is gone");
        let shown = cage.jail.show(&[write.as_fd()]).unwrap();
        cage.run(&format!("echo again > {}", shown[0].path));
        hears(&mut read, "again\n");
    }
}

/// The holder can be looked into by whoever runs inside: it has nothing that is not theirs to see.
#[test]
fn what_holds_descriptors_has_neither_the_hosts_environment_nor_its_files() {
    for strength in strengths() {
        let mut cage = cage(strength, &Isolation::of(Profile::Workspace));
        let (_read, write) = std::io::pipe().unwrap();
        let shown = cage.jail.show(&[write.as_fd()]).unwrap();
        let holder = shown[0].path.split('/').nth(2).unwrap();
        let variables = format!("tr '\\0' '\\n' < /proc/{holder}/environ | grep -c =");
        assert_eq!(cage.prints(&variables), "0", "{strength:?}");
        // Three that every process has, the socket to the host, and what it holds.
        assert_eq!(cage.prints(&format!("set -- /proc/{holder}/fd/*; echo $#")), "5", "{strength:?}");
        // Nor does what is started get more than it is given.
        let given =
            cage.prints("env | grep -v '^_=\\|^SHLVL=\\|^OLDPWD=' | cut -d= -f1 | sort | tr '\\n' ' '");
        assert_eq!(given, "PATH PWD", "{strength:?}");
    }
}

/// Landlock alone: what a mount would hide or make read-only.
#[test]
fn without_namespaces_what_is_hidden_stays_so_and_nothing_is_made_beside_the_channels() {
    let io_dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let io = io_dir.path().canonicalize().unwrap();
    std::fs::write(io.join("channel"), "").unwrap();
    let isolation = Isolation { hide: vec!["/usr/share".to_owned()], ..Isolation::of(Profile::Workspace) };
    let mut cage = cage_with(Strength::InPlace, &isolation, Some(io.clone()));
    assert_eq!(cage.prints("ls /usr/share >/dev/null 2>&1 || echo refused"), "refused");
    assert_eq!(cage.prints("ls /usr/bin >/dev/null && echo shown"), "shown");
    let io = io.display();
    assert_eq!(cage.prints(&format!("echo x >> {io}/channel && echo told")), "told");
    assert_eq!(cage.prints(&format!("(echo x >> {io}/other) 2>/dev/null || echo refused")), "refused");
}

/// Seccomp refuses to open sockets; Landlock holds those that are open already.
#[test]
fn without_namespaces_a_socket_that_is_given_connects_nowhere() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut cage = cage(Strength::InPlace, &Isolation::of(Profile::Workspace));
    if cage.run("/usr/bin/python3 -c 0").1 != Ending::Status(0) {
        trl_testkit::needs::skip("there is no python3");
        return;
    }
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
    let (socket, (mut read, write)) = (socket.unwrap(), std::io::pipe().unwrap());
    let connect = format!(
        "exec /usr/bin/python3 -c 'import socket; print(socket.socket(fileno=0).connect_ex((\"127.0.0.1\", {port})))'"
    );
    let streams = [StreamFrom::Given, StreamFrom::Given, StreamFrom::Given];
    let given = [socket.as_fd(), write.as_fd(), write.as_fd()];
    let program = sh(&connect, cage.workspace.path());
    let spawned = cage.jail.spawn(&program, streams, (24, 80), &given).unwrap();
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    cage.end_of(spawned.pid);
    if trl_confine::linux::files::abi() < 4 {
        trl_testkit::needs::skip("this kernel's Landlock knows of no network");
        return;
    }
    assert_eq!(text.trim(), libc::EACCES.to_string());
}

#[test]
fn a_terminal_is_one_of_the_inside() {
    for strength in strengths() {
        let mut cage = cage(strength, &Isolation::of(Profile::Workspace));
        let program = sh("tty <&1; echo $(ls /dev/pts)", Path::new("/"));
        let streams = [StreamFrom::Null, StreamFrom::Terminal, StreamFrom::Terminal];
        let spawned = cage.jail.spawn(&program, streams, (24, 80), &[]).unwrap();
        let master = File::from(spawned.terminal.unwrap());
        assert_eq!(cage.end_of(spawned.pid), Ending::Status(0));
        let mut text = Vec::new();
        // The end of a terminal is an error of the last read.
        (&master).read_to_end(&mut text).ok();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("/dev/pts/"), "{text}");
        if strength == Strength::Namespaces {
            assert_eq!(text, "/dev/pts/0\r\n0 ptmx\r\n");
        }
    }
}

#[test]
fn everything_ends_with_the_cage() {
    if let Err(step) = probe::namespaces() {
        trl_testkit::needs::skip(&format!("{step}"));
        return;
    }
    let mut cage = cage(Strength::Namespaces, &Isolation::of(Profile::Workspace));
    let (mut read, write) = std::io::pipe().unwrap();
    let program = sh("setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & :", Path::new("/"));
    let streams = [StreamFrom::Null, StreamFrom::Given, StreamFrom::Null];
    let spawned = cage.jail.spawn(&program, streams, (24, 80), &[write.as_fd()]).unwrap();
    drop(write);
    assert_eq!(cage.end_of(spawned.pid), Ending::Status(0));
    drop(cage);
    let mut rest = String::new();
    // Ends when the last of them is gone.
    read.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
