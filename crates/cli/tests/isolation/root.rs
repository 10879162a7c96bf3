//! A session whose `/` is another directory.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_testkit::{Daemon, Session, Shell, daemon, needs, trl};

use super::escapes::escapes;
use super::outside::{NOBODY, Outside};

/// An unpacked system with busybox in it, which belongs to this user.
fn unpacked(user: u32) -> Option<TempDir> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists())?;
    // In either of the places where a session has directories of its own.
    let place = if user == NOBODY { "/var/tmp" } else { "/tmp" };
    let dir = tempfile::Builder::new().prefix("trl-root-").tempdir_in(place).unwrap();
    let root = dir.path();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["bin", "etc", "home"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "echo", "ls", "mkdir", "rm", "sleep", "chroot", "mount", "ps", "wc"] {
        symlink("/bin/busybox", root.join("bin").join(name)).unwrap();
    }
    fs::write(root.join("etc/own"), "of the root\n").unwrap();
    for path in [root.to_owned(), root.join("bin"), root.join("etc"), root.join("etc/own"), root.join("home")]
    {
        chown(&path, Some(user), Some(user)).unwrap();
    }
    Some(dir)
}

/// With sessions of root's and of an ordinary user's, each in a root of their own.
fn for_each_user(check: impl Fn(&Daemon, &Path)) {
    for daemon in [daemon!(), Daemon::builder(trl!()).as_user(NOBODY).start()] {
        match unpacked(daemon.user()) {
            Some(root) => check(&daemon, root.path()),
            None => return needs::skip("there is no busybox"),
        }
    }
}

fn session(daemon: &Daemon, root: &Path, more: Value) -> Session {
    let mut isolation = json!({"profile": "strict", "root": root});
    isolation.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    daemon.session_with(Shell::Sh, json!({"isolation": isolation}))
}

#[test]
fn the_directory_is_everything_that_there_is() {
    for_each_user(|daemon, root| {
        let mut inside = session(daemon, root, json!({}));
        inside.run("cat /etc/own; ls /etc; ls /usr 2>/dev/null").prints("of the root\nown\n", "");
        inside
            .run("pwd; echo made > here; cat here")
            .exits(0)
            .prints(&format!("{}\nmade\n", daemon.work().canonicalize().unwrap().display()), "");
        assert_eq!(fs::read_to_string(daemon.work().join("here")).unwrap(), "made\n");
        // Changes are seen inside, and stay there.
        inside.run("echo new > /etc/new && rm /etc/own && ls /etc").exits(0).prints("new\n", "");
        assert_eq!(fs::read_to_string(root.join("etc/own")).unwrap(), "of the root\n");
        assert!(!root.join("etc/new").exists());
        inside.destroy();
        // Unless it may be written.
        let mut inside = session(daemon, root, json!({"write": [root]}));
        inside.ok("echo new > /etc/new");
        assert_eq!(fs::read_to_string(root.join("etc/new")).unwrap(), "new\n");
        let by_request = inside.params(json!({"path": "/etc/own"}));
        assert_eq!(daemon.connect().ok(m::FileRead::NAME, by_request)["text"], "of the root\n");
        inside.destroy();
    });
}

/// The shell of busybox prompts on its stdout.
#[test]
fn commands_run_in_one_living_shell() {
    for_each_user(|daemon, root| stays(session(daemon, root, json!({}))));
}

#[test]
fn commands_run_in_one_living_shell_also_if_it_is_a_hard_link() {
    for_each_user(|daemon, root| {
        fs::remove_file(root.join("bin/sh")).unwrap();
        fs::hard_link(root.join("bin/busybox"), root.join("bin/sh")).unwrap();
        stays(session(daemon, root, json!({})));
    });
}

#[test]
fn commands_run_in_one_living_shell_also_if_it_is_a_copy() {
    for_each_user(|daemon, root| {
        fs::remove_file(root.join("bin/sh")).unwrap();
        fs::copy(root.join("bin/busybox"), root.join("bin/sh")).unwrap();
        stays(session(daemon, root, json!({})));
    });
}

/// One that does not say what it is is known by what it does: it gets another shell once, not with each command.
#[test]
fn commands_run_in_one_living_shell_once_it_has_prompted_elsewhere() {
    for_each_user(|daemon, root| {
        let mut program = fs::read(root.join("bin/busybox")).unwrap();
        for at in 0..program.len() - 9 {
            if program[at..].starts_with(b"BusyBox v") {
                program[at] = b'b';
            }
        }
        let shell = root.join("bin/sh");
        fs::remove_file(&shell).unwrap();
        fs::write(&shell, program).unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        let mut inside = session(daemon, root, json!({}));
        let has_prompted = (0..10).any(|_| {
            let notes = inside.run(":").notes;
            notes.iter().any(|note| note.contains("line editor"))
        });
        assert!(has_prompted);
        stays(inside);
    });
}

fn stays(mut inside: Session) {
    let first = inside.ok("echo $$");
    for number in 0..20 {
        let ran = inside.run(&format!("echo $$; (exit {number})"));
        assert_eq!((ran.exit_code, &ran.stdout), (Some(number), &first), "{ran:?}");
        assert!(ran.notes.is_empty(), "{ran:?}");
    }
    let ran = inside.run_with(json!({"command": "test -t 1 && echo terminal", "tty": true}));
    assert_eq!(ran.stdout, "terminal\r\n", "{ran:?}");
    inside.destroy();
}

#[test]
fn nothing_leads_out_of_it() {
    for_each_user(|daemon, root| {
        let outside = daemon.user_home().join("outside");
        fs::write(&outside, "secret").unwrap();
        symlink(&outside, root.join("etc/link")).unwrap();
        symlink("../../../../../../../../etc/passwd", root.join("etc/up")).unwrap();
        for more in [json!({}), json!({"write": [root]})] {
            let mut inside = session(daemon, root, more);
            for attempt in [
                "cat /etc/link",
                "cat /etc/up",
                "cat ../../../../../../../../../etc/passwd",
                "cat /proc/1/root/etc/passwd",
                "cat /proc/self/root/../etc/passwd",
                "cat /proc/1/cwd/../etc/passwd",
                "mkdir -p /home/x && chroot /home/x /bin/sh -c 'cd ../../../..; cat etc/passwd'",
                "mount -t proc proc /home && cat /home/1/root/etc/passwd",
                "ls /.layers /.root",
                "cat /.layers/0/passwd",
            ] {
                let ran = inside.run(attempt);
                assert!(ran.exit_code != Some(0) && ran.stdout.is_empty(), "{attempt}: {ran:?}");
            }
            inside.destroy();
        }
        let attacked = Outside::around(daemon);
        let isolation = json!({"profile": "strict", "root": root});
        let (escaped, tried) = escapes(daemon, &attacked, Shell::Sh, isolation, false);
        assert!(tried >= 160 && attacked.is_untouched(), "{tried}");
        assert_eq!(escaped, std::collections::BTreeSet::new());
    });
}
