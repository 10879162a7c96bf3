//! `file.list` and `file.stat`: what there is, without following links.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{
    self, FileDone, FileEntry, FileKind, ListParams, ListReply, MAX_ENTRIES, StatParams,
};

use super::path::{Located, absolute};
use super::{fault, glob};

/// Deeper than any tree that people make.
const MAX_DEPTH: u32 = 256;
/// Entries that are looked at, whether or not they match.
const MAX_SEEN: usize = 1_000_000;

pub(super) fn stat(dir: &str, params: &StatParams) -> Result<FileDone, Fault> {
    let failed = |error: io::Error| fault::of(&params.path, &error);
    let path = absolute(dir, &params.path)?;
    let at = if params.follow { Located::target(&path) } else { Located::entry(&path) };
    let at = at.map_err(failed)?;
    let Some(stat) = at.stat().map_err(failed)? else {
        return Err(fault::new(Code::FileNotFound, &params.path, "does not exist"));
    };
    Ok(FileDone::Stat(entry(&at.dir, &at.name, params.path.clone(), &stat)))
}

fn entry(dir: impl AsFd, name: &std::ffi::OsStr, path: String, stat: &Stat) -> FileEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let target = match kind {
        FileKind::Symlink => readlinkat(dir, name, Vec::new()).ok(),
        FileKind::File | FileKind::Directory | FileKind::Other => None,
    };
    let modified = jiff::Timestamp::new(stat.st_mtime, i32::try_from(stat.st_mtime_nsec).unwrap_or(0));
    FileEntry {
        path,
        kind,
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        mode: file::Mode(stat.st_mode & 0o7777),
        modified_at: format!("{:.3}", modified.unwrap_or_default()),
        target: target.map(|target| String::from_utf8_lossy(target.as_bytes()).into_owned()),
    }
}

pub(super) fn list(dir: &str, params: &ListParams) -> Result<FileDone, Fault> {
    let failed = |error: io::Error| fault::of(&params.path, &error);
    let path = absolute(dir, &params.path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(rustix::fs::CWD, &path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR if std::fs::metadata(&path).is_ok_and(|found| !found.is_dir()) => {
            fault::new(Code::FileNotFound, &params.path, "is not a directory; file.stat tells about it")
        }
        error => failed(error.into()),
    })?;
    let glob = params.glob.as_deref();
    let whole_tree = glob.is_some_and(|glob| glob.contains('/') || glob.contains("**"));
    let default = if whole_tree { MAX_DEPTH } else { 1 };
    let mut walk = Walk {
        glob,
        shown: match params.path.as_str() {
            "." | "./" => String::new(),
            path if path.ends_with('/') => path.to_owned(),
            path => format!("{path}/"),
        },
        entries: Vec::new(),
        seen: 0,
        truncated: false,
    };
    let depth = params.depth.unwrap_or(default).clamp(1, MAX_DEPTH);
    walk.directory(top, "", depth).map_err(failed)?;
    let Walk { mut entries, truncated, .. } = walk;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(FileDone::Listed(ListReply { entries, truncated }))
}

struct Walk<'a> {
    glob: Option<&'a str>,
    /// What comes before every path.
    shown: String,
    entries: Vec<FileEntry>,
    seen: usize,
    truncated: bool,
}

impl Walk<'_> {
    /// `below` is the path from the top, empty or with a `/` at its end.
    fn directory(&mut self, dir: OwnedFd, below: &str, depth: u32) -> io::Result<()> {
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name != "." && name != ".." {
                names.push(name);
            }
            self.seen += 1;
            if self.seen > MAX_SEEN {
                self.truncated = true;
                break;
            }
        }
        names.sort();
        for name in names {
            if self.truncated {
                break;
            }
            self.visit(&dir, &name, below, depth);
        }
        Ok(())
    }

    fn visit(&mut self, dir: &OwnedFd, name: &OsString, below: &str, depth: u32) {
        // Gone since its name was read: then it is not listed.
        let Ok(stat) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let path = format!("{below}{}", String::from_utf8_lossy(name.as_bytes()));
        if self.is_wanted(&path) {
            if self.entries.len() >= MAX_ENTRIES {
                self.truncated = true;
                return;
            }
            self.entries.push(entry(dir, name, format!("{}{path}", self.shown), &stat));
        }
        if depth > 1 && FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            // A directory that may not be read is listed without what is in it.
            if let Ok(sub) = openat(dir, name, flags, Mode::empty()) {
                self.directory(sub, &format!("{path}/"), depth - 1).ok();
            }
        }
    }

    fn is_wanted(&self, path: &str) -> bool {
        match self.glob {
            None => true,
            Some(glob) if glob.contains('/') => glob::matches(glob, path),
            Some(glob) => glob::matches(glob, path.rsplit('/').next().unwrap_or(path)),
        }
    }
}
