//! `trl cp` in both directions.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::json;
use trl_testkit::{Daemon, Shell, daemon};

#[track_caller]
fn cp(daemon: &Daemon, args: &[&str]) {
    let mut words = vec!["cp"];
    words.extend(args);
    let output = daemon.trl(&words);
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn bytes(count: u32) -> Vec<u8> {
    (0..count).map(|number| (number * 31 % 253) as u8).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn files_go_both_ways_with_their_permissions() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Bash, json!({"name": "s"}));
    let (here, content) = (daemon.temporary().join("here.bin"), bytes(5_000_000));
    fs::write(&here, &content).unwrap();
    fs::set_permissions(&here, fs::Permissions::from_mode(0o550)).unwrap();
    cp(&daemon, &[&text(&here), "s:"]);
    let there = session.dir.join("here.bin");
    assert!(fs::read(&there).unwrap() == content);
    assert_eq!(there.metadata().unwrap().permissions().mode() & 0o777, 0o550);
    cp(&daemon, &[&text(&here), "s:renamed"]);
    assert!(session.dir.join("renamed").is_file());
    let back = daemon.temporary().join("back");
    cp(&daemon, &["s:renamed", &text(&back)]);
    assert!(fs::read(&back).unwrap() == content);
    fs::write(session.dir.join("empty"), "").unwrap();
    // Files of the kernel say that they are empty.
    let version = fs::read("/proc/version").unwrap();
    cp(&daemon, &["/proc/version", "s:up"]);
    cp(&daemon, &["s:/proc/version", &text(&daemon.temporary().join("down"))]);
    assert!(fs::read(session.dir.join("up")).unwrap() == version);
    assert!(fs::read(daemon.temporary().join("down")).unwrap() == version);
    cp(&daemon, &["s:empty", &text(&daemon.temporary())]);
    assert_eq!(fs::read(daemon.temporary().join("empty")).unwrap(), b"");
    let names: Vec<_> = fs::read_dir(&session.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("trl-part")), "{names:?}");
}

#[test]
fn directories_go_whole_and_links_lead_nowhere() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Bash, json!({"name": "s"}));
    let tree = session.dir.join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/deep"), "deep").unwrap();
    fs::write(tree.join("top"), "top").unwrap();
    symlink("/etc", tree.join("link")).unwrap();
    let into = daemon.temporary().join("into");
    fs::create_dir(&into).unwrap();
    let refused = daemon.trl(&["cp", "s:tree", &text(&into)]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("-r"),
        "{refused:?}"
    );
    cp(&daemon, &["-r", "s:tree", &text(&into)]);
    assert_eq!(fs::read_to_string(into.join("tree/a/b/deep")).unwrap(), "deep");
    assert!(!into.join("tree/link").exists());
    cp(&daemon, &["-r", &text(&into.join("tree")), "s:copy"]);
    assert_eq!(fs::read_to_string(session.dir.join("copy/a/b/deep")).unwrap(), "deep");

    // A link that is named itself is what it leads to.
    fs::set_permissions(tree.join("top"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("top", tree.join("to-file")).unwrap();
    symlink("a", tree.join("to-dir")).unwrap();
    let copied = into.join("from-link");
    cp(&daemon, &["s:tree/to-file", &text(&copied)]);
    let meta = copied.symlink_metadata().unwrap();
    assert!(meta.is_file() && fs::read_to_string(&copied).unwrap() == "top");
    assert_eq!(meta.permissions().mode() & 0o777, 0o640);
    cp(&daemon, &["-r", "s:tree/to-dir", &text(&into.join("from-dir"))]);
    assert_eq!(fs::read_to_string(into.join("from-dir/b/deep")).unwrap(), "deep");
    cp(&daemon, &[&text(&copied), "s:tree/to-dir"]);
    assert_eq!(fs::read_to_string(tree.join("a/from-link")).unwrap(), "top");

    // A link that is already there is not followed out of the target.
    let (trap, outside) = (daemon.temporary().join("trap"), daemon.temporary().join("outside"));
    fs::create_dir_all(trap.join("tree")).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, trap.join("tree/a")).unwrap();
    let refused = daemon.trl(&["cp", "-r", "s:tree", &text(&trap)]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn an_interrupted_copy_goes_on_where_it_stopped() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Bash, json!({"name": "s"}));
    let (here, content) = (daemon.temporary().join("big"), bytes(9_000_000));
    fs::write(&here, &content).unwrap();
    let mut child = daemon.client().args(["cp", &text(&here), "s:big"]).spawn().unwrap();
    let part = || {
        fs::read_dir(&session.dir).unwrap().flatten().find(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.contains("trl-part") && entry.metadata().is_ok_and(|meta| meta.len() >= 4 << 20)
        })
    };
    trl_testkit::wait_until("a part is there", trl_testkit::GUARD, || {
        part().is_some() || session.dir.join("big").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let inode = part().map(|part| std::os::unix::fs::MetadataExt::ino(&part.metadata().unwrap()));
    cp(&daemon, &[&text(&here), "s:big"]);
    let whole = session.dir.join("big");
    assert!(fs::read(&whole).unwrap() == content);
    if let Some(inode) = inode {
        let whole = std::os::unix::fs::MetadataExt::ino(&whole.metadata().unwrap());
        assert_eq!(whole, inode, "the part was added to, not made anew");
    }
}

#[test]
fn what_cannot_be_copied_leaves_no_part() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Bash, json!({"name": "s"}));
    let (here, there) = (daemon.temporary().join("here"), session.dir.clone());
    // The last step is refused: a directory has the name.
    for dir in [&here, &there] {
        fs::create_dir_all(dir.join("tree/x/full")).unwrap();
        fs::create_dir_all(dir.join("file")).unwrap();
        fs::write(dir.join("file/x"), "text").unwrap();
    }
    let parts = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().contains("trl-part")).count()
    };
    for args in [[&text(&here.join("file/x")), "s:tree"], ["s:file/x", &text(&here.join("tree"))]] {
        let output = daemon.trl(&["cp", args[0], args[1]]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("irectory"), "{args:?}: {output:?}");
    }
    assert_eq!((parts(&here.join("tree")), parts(&there.join("tree"))), (0, 0));
}

#[test]
fn what_cannot_be_copied_is_told() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Bash, json!({"name": "s"}));
    let (there, here) = (session.dir.join("there"), daemon.temporary().join("here"));
    fs::write(&there, "there").unwrap();
    fs::write(&here, "here").unwrap();
    let (here, no_dir) = (text(&here), text(&daemon.temporary().join("down")) + "/");
    for (args, said) in [
        (&["s:there", &no_dir][..], "is not a directory here"),
        (&[&here, "s:down/"], "is not a directory in session s"),
        (&[&here, "s:none/x"], "\"none\" does not exist in session s"),
        (&[&here, "s:there/x"], "\"there\" is not a directory in session s"),
        (&["/dev/null", "s:"], "neither a file nor a directory"),
        (&["s:/dev/null", &here], "neither a file nor a directory"),
        (&["a", "b"], "SESSION:PATH"),
        (&["s:a", "s:b"], "both"),
        (&["s:none", "/tmp"], "does not exist"),
        (&["/no/such/file", "s:"], "No such file"),
        (&["none:a", "/tmp/x"], "no session"),
    ] {
        let mut words = vec!["cp"];
        words.extend(args);
        let output = daemon.trl(&words);
        assert!(!output.status.success(), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{args:?}: {output:?}");
    }
    for args in [["s:none", "/tmp"], ["/no/such/file", "s:"], [&here, "s:none/x"]] {
        let output = daemon.trl(&[&["cp", "--json"][..], &args].concat());
        assert_eq!(output.status.code(), Some(66), "{args:?}: {output:?}");
        let said = [output.stdout, output.stderr].concat();
        assert!(String::from_utf8_lossy(&said).contains("FILE_NOT_FOUND"), "{args:?}");
    }
    assert!(!session.dir.join("down").exists() && !daemon.temporary().join("down").exists());
}
