//! Requests about files against a real directory, without a process in between.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use tempfile::TempDir;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{
    EditParams, FileDone, FileEntry, FileKind, FileOp, ListParams, MakeDirParams, Mode, MoveParams,
    ReadParams, RemoveParams, StatParams, WriteParams,
};

use super::*;

struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn ask(&self, op: FileOp) -> Result<(FileDone, Vec<u8>), Fault> {
        work::perform(self.path().to_str().unwrap(), &op)
    }

    fn code(&self, op: FileOp) -> Code {
        self.ask(op).unwrap_err().code
    }

    fn put(&self, path: &str, content: &str) {
        fs::write(self.path().join(path), content).unwrap();
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).unwrap()
    }

    fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path().join(dir)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn read(path: &str) -> FileOp {
    FileOp::Read(ReadParams { path: path.into(), ..Default::default() })
}

fn write(path: &str, content: &str) -> FileOp {
    FileOp::Write(WriteParams { path: path.into(), ..Default::default() }, content.into())
}

fn edit(path: &str, old: &str, new: &str, all: bool) -> FileOp {
    FileOp::Edit(EditParams {
        path: path.into(),
        old: old.into(),
        new: new.into(),
        all,
        ..Default::default()
    })
}

fn remove(path: &str, recursive: bool) -> FileOp {
    FileOp::Remove(RemoveParams { path: path.into(), recursive, ..Default::default() })
}

fn moved(from: &str, to: &str, overwrite: bool) -> FileOp {
    FileOp::Move(MoveParams { from: from.into(), to: to.into(), overwrite, ..Default::default() })
}

const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[test]
fn a_file_is_read_in_parts() {
    let files = Files::new();
    files.put("f", "hello");
    let (done, bytes) = files.ask(read("f")).unwrap();
    let sha256 = Some(HELLO_SHA256.to_owned());
    assert_eq!(done, FileDone::Read { offset: 0, next_offset: 5, total: 5, sha256 });
    assert_eq!(bytes, b"hello");
    for (offset, limit, expected, next_offset) in
        [(0, 2, "he", 2), (2, 2, "ll", 4), (4, 9, "o", 5), (5, 9, "", 5), (9, 9, "", 5), (0, 0, "", 0)]
    {
        let params = ReadParams { path: "f".into(), offset, limit: Some(limit), ..Default::default() };
        let (done, bytes) = files.ask(FileOp::Read(params)).unwrap();
        assert_eq!(bytes, expected.as_bytes(), "{offset} {limit}");
        let expected = FileDone::Read { offset: offset.min(5), next_offset, total: 5, sha256: None };
        assert_eq!(done, expected, "{offset} {limit}");
    }
    let (done, bytes) = files.ask(read("/proc/self/status")).unwrap();
    assert!(matches!(done, FileDone::Read { total, .. } if total == bytes.len() as u64 && total > 0));
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let files = Files::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        files.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    fs::create_dir(files.path().join("dir")).unwrap();
    symlink("loop", files.path().join("loop")).unwrap();
    for path in ["pipe", "dir", ".", "/", "loop", "", "a\0b"] {
        assert_eq!(files.code(read(path)), Code::InvalidParams, "{path}");
        assert_eq!(files.code(write(path, "x")), Code::InvalidParams, "{path}");
    }
    assert_eq!(files.code(read("none")), Code::FileNotFound);
    assert_eq!(files.code(read("pipe/x")), Code::FileNotFound);
    assert_eq!(files.code(write("none/x", "")), Code::FileNotFound);
}

#[test]
fn a_part_is_written_where_it_belongs_however_often() {
    let files = Files::new();
    files.put("f", "0123456789");
    let part = |offset, content: &str| {
        let params = WriteParams { path: "f".into(), offset: Some(offset), ..Default::default() };
        FileOp::Write(params, content.into())
    };
    for (offset, content) in [(2, "ab"), (10, "more"), (2, "ab"), (10, "more")] {
        files.ask(part(offset, content)).unwrap();
    }
    assert_eq!(fs::read_to_string(files.path().join("f")).unwrap(), "01ab456789more");
    assert_eq!(files.code(part(15, "x")), Code::FileConflict);
    let both = WriteParams { path: "f".into(), offset: Some(0), append: true, ..Default::default() };
    assert_eq!(files.code(FileOp::Write(both, "x".into())), Code::InvalidParams);
    let none = WriteParams { path: "none".into(), offset: Some(0), ..Default::default() };
    assert_eq!(files.code(FileOp::Write(none, "x".into())), Code::FileNotFound);
}

#[test]
fn a_write_replaces_as_a_whole_and_keeps_permissions_and_links() {
    let files = Files::new();
    files.put("f", "old");
    fs::set_permissions(files.path().join("f"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("f", files.path().join("link")).unwrap();
    let held = fs::File::open(files.path().join("f")).unwrap();
    let (done, _) = files.ask(write("link", "hello")).unwrap();
    let FileDone::Written(written) = done else { panic!("{done:?}") };
    assert_eq!((written.bytes, written.sha256.as_deref()), (5, Some(HELLO_SHA256)));
    assert_eq!(files.content("f"), "hello");
    assert_eq!(files.path().join("f").metadata().unwrap().permissions().mode() & 0o777, 0o750);
    assert!(files.path().join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(io::read_to_string(held).unwrap(), "old", "who had it open still has the old one");
    symlink("new", files.path().join("dangling")).unwrap();
    files.ask(write("dangling", "x")).unwrap();
    assert_eq!(files.content("new"), "x");
    assert_eq!(files.names("."), ["dangling", "f", "link", "new"]);
}

/// In another session, with process ids of its own, somebody may write the same file at the same time.
#[test]
fn what_another_process_of_the_same_id_writes_is_left_alone() {
    let files = Files::new();
    let others = format!(".f.trl-{}", std::process::id());
    files.put(&others, "half of it");
    files.ask(write("f", "hello")).unwrap();
    assert_eq!((files.content(&others), files.content("f")), ("half of it".into(), "hello".into()));
    assert_eq!(files.names("."), [others.as_str(), "f"]);
}

#[test]
fn parents_modes_and_appending() {
    let files = Files::new();
    let params = WriteParams {
        path: "a/b/f".into(),
        make_parents: true,
        mode: Some(Mode(0o604)),
        append: true,
        ..Default::default()
    };
    for (piece, total) in [("hel", 3), ("lo", 5)] {
        let (done, _) = files.ask(FileOp::Write(params.clone(), piece.into())).unwrap();
        let FileDone::Written(written) = done else { panic!("{done:?}") };
        assert_eq!((written.bytes, written.total_bytes), (piece.len() as u64, total));
    }
    assert_eq!(files.content("a/b/f"), "hello");
    assert_eq!(files.path().join("a/b/f").metadata().unwrap().permissions().mode() & 0o777, 0o604);
}

#[test]
fn a_write_under_a_condition() {
    let files = Files::new();
    files.put("f", "hello");
    let conditional = |path: &str, sha256: &str| {
        let params = WriteParams { path: path.into(), if_sha256: Some(sha256.into()), ..Default::default() };
        FileOp::Write(params, b"new".to_vec())
    };
    let fault = files.ask(conditional("f", "00")).unwrap_err();
    assert_eq!(fault.code, Code::FileConflict);
    assert_eq!(fault.details.unwrap()["sha256"], HELLO_SHA256);
    assert_eq!(files.code(conditional("none", HELLO_SHA256)), Code::FileConflict);
    assert_eq!(files.content("f"), "hello");
    files.ask(conditional("f", &HELLO_SHA256.to_uppercase())).unwrap();
    assert_eq!(files.content("f"), "new");
}

#[test]
fn an_edit_needs_its_text_exactly_once() {
    let files = Files::new();
    files.put("f", "one two one");
    for (old, all, found) in [("three", false, 0), ("three", true, 0), ("one", false, 2)] {
        let fault = files.ask(edit("f", old, "x", all)).unwrap_err();
        assert_eq!(fault.code, Code::FileConflict, "{old}");
        assert_eq!(fault.details.unwrap()["found"], found);
    }
    assert_eq!(files.code(edit("f", "", "x", true)), Code::InvalidParams);
    assert_eq!(files.code(edit("none", "a", "x", true)), Code::FileNotFound);
    files.ask(edit("f", "two", "zwei\n", false)).unwrap();
    let (done, _) = files.ask(edit("f", "one", "", true)).unwrap();
    assert!(matches!(done, FileDone::Edited(edited) if edited.replaced == 2));
    assert_eq!(files.content("f"), " zwei\n ");
    fs::write(files.path().join("bytes"), b"\xff a \0").unwrap();
    files.ask(edit("bytes", " a ", "-", false)).unwrap();
    assert_eq!(fs::read(files.path().join("bytes")).unwrap(), b"\xff-\0");
}

fn listed(files: &Files, params: ListParams) -> (Vec<FileEntry>, bool) {
    match files.ask(FileOp::List(params)) {
        Ok((FileDone::Listed(reply), _)) => (reply.entries, reply.truncated),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_goes_as_deep_as_asked_and_follows_no_link() {
    let files = Files::new();
    fs::create_dir_all(files.path().join("a/b")).unwrap();
    files.put("a/b/x.rs", "12345");
    files.put("a/y.txt", "");
    files.put("z.rs", "");
    symlink("/", files.path().join("root")).unwrap();
    let paths = |path: &str, depth, glob: Option<&str>| {
        let params =
            ListParams { path: path.into(), depth, glob: glob.map(str::to_owned), ..Default::default() };
        listed(&files, params).0.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
    };
    assert_eq!(paths(".", None, None), ["a", "root", "z.rs"]);
    assert_eq!(paths("a", None, None), ["a/b", "a/y.txt"]);
    assert_eq!(paths("a/", Some(2), None), ["a/b", "a/b/x.rs", "a/y.txt"]);
    assert_eq!(paths(".", None, Some("**/*.rs")), ["a/b/x.rs", "z.rs"]);
    assert_eq!(paths(".", Some(9), Some("*.txt")), ["a/y.txt"]);
    let absolute = files.path().join("a").display().to_string();
    assert_eq!(paths(&absolute, None, None)[1], format!("{absolute}/y.txt"));
    let (entries, truncated) = listed(&files, ListParams { path: "a/b".into(), ..Default::default() });
    assert_eq!((entries[0].kind, entries[0].bytes, truncated), (FileKind::File, 5, false));
    let stat_of = |path: &str, follow| match files.ask(FileOp::Stat(StatParams {
        path: path.into(),
        follow,
        ..Default::default()
    })) {
        Ok((FileDone::Stat(entry), _)) => entry,
        other => panic!("{other:?}"),
    };
    let stat = |path: &str| stat_of(path, false);
    let root = stat_of("root", true);
    assert_eq!((root.kind, root.target, root.path), (FileKind::Directory, None, "root".to_owned()));
    assert_eq!((stat("root").kind, stat("root").target.as_deref()), (FileKind::Symlink, Some("/")));
    assert_eq!(stat(".").kind, FileKind::Directory);
    assert_eq!(
        files.code(FileOp::List(ListParams { path: "z.rs".into(), ..Default::default() })),
        Code::FileNotFound
    );
}

#[test]
fn moving_replaces_nothing_unless_asked() {
    let files = Files::new();
    files.put("a", "a");
    files.put("b", "b");
    assert_eq!(files.code(moved("a", "b", false)), Code::FileExists);
    assert_eq!(files.code(moved("none", "b", true)), Code::FileNotFound);
    files.ask(moved("a", "b", true)).unwrap();
    assert_eq!((files.content("b"), files.names(".")), ("a".into(), vec!["b".to_owned()]));
    files.ask(moved("b", "c", false)).unwrap();
    assert_eq!(files.names("."), ["c"]);
}

#[test]
fn removing_follows_no_link_and_spares_what_is_not_empty() {
    let files = Files::new();
    let outside = Files::new();
    outside.put("kept", "x");
    fs::create_dir_all(files.path().join("d/e")).unwrap();
    files.put("d/e/f", "");
    symlink(outside.path(), files.path().join("d/link")).unwrap();
    assert_eq!(files.code(remove("d", false)), Code::InvalidParams);
    assert_eq!(files.code(remove("none", true)), Code::FileNotFound);
    assert_eq!(files.code(remove(".", true)), Code::InvalidParams);
    files.ask(remove("d/link", true)).unwrap();
    symlink(outside.path(), files.path().join("d/link")).unwrap();
    files.ask(remove("d", true)).unwrap();
    assert!(files.names(".").is_empty());
    assert_eq!(outside.content("kept"), "x");
}

#[test]
fn directories_are_made_once_or_as_needed() {
    let files = Files::new();
    let make = |path: &str, parents| {
        FileOp::MakeDir(MakeDirParams { path: path.into(), parents, ..Default::default() })
    };
    assert_eq!(files.code(make("a/b", false)), Code::FileNotFound);
    files.ask(make("a/b", true)).unwrap();
    files.ask(make("a/b", true)).unwrap();
    assert_eq!(files.code(make("a/b", false)), Code::FileExists);
    files.put("f", "");
    assert_eq!(files.code(make("f", true)), Code::FileExists);
}

#[test]
fn a_file_of_the_kernel_is_read_in_parts_to_its_end() {
    let files = Files::new();
    let whole = fs::read("/proc/self/limits").unwrap();
    let part = |offset, limit| {
        FileOp::Read(ReadParams {
            path: "/proc/self/limits".into(),
            offset,
            limit: Some(limit),
            ..Default::default()
        })
    };
    let size = whole.len() as u64;
    for (from, limit) in [(0, 10), (10, 10), (0, 0), (0, size), (0, size + 1), (size - 3, 10), (size, 10)] {
        let (done, bytes) = files.ask(part(from, limit)).unwrap();
        let FileDone::Read { offset, next_offset, total, sha256 } = done else { panic!("{done:?}") };
        let end = size.min(from + limit);
        assert_eq!((offset, next_offset, total), (from, end, size), "{from} {limit}");
        assert_eq!(bytes, whole[from as usize..end as usize], "{from} {limit}");
        assert_eq!(sha256.is_some(), from == 0 && end == size, "{from} {limit}");
    }
    let (done, bytes) = files.ask(part(size + 100, 10)).unwrap();
    let beyond = FileDone::Read { offset: size, next_offset: size, total: size, sha256: None };
    assert_eq!((done, bytes), (beyond, Vec::new()));
}

#[test]
fn a_missing_parent_and_a_file_that_is_no_directory_are_named() {
    let files = Files::new();
    files.put("file", "x");
    let list = |path: &str| FileOp::List(ListParams { path: path.into(), ..Default::default() });
    let make = MakeDirParams { path: "p/q".into(), ..Default::default() };
    let missing = "its parent directory does not exist";
    for (op, code, words) in [
        (write("a/b.txt", ""), Code::FileNotFound, [missing, "`make_parents`"]),
        (FileOp::MakeDir(make), Code::FileNotFound, [missing, "`parents`"]),
        (list("file"), Code::FileNotFound, ["is not a directory", "file.stat"]),
        (list("file/x"), Code::FileNotFound, ["leads through something", "not a directory"]),
        (list("none"), Code::FileNotFound, ["does not exist", "none"]),
    ] {
        let fault = files.ask(op).unwrap_err();
        assert_eq!(fault.code, code, "{fault:?}");
        assert!(words.iter().all(|word| fault.message.contains(word)), "{fault:?}");
    }
}
