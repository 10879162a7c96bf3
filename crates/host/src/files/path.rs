//! Finding a file by its path, once.
//!
//! A path is walked to the directory that holds the file, and everything else happens
//! relative to that open directory. So whoever exchanges a directory on the way for a link
//! meanwhile changes nothing: what was looked at is what is changed.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use trl_protocol::fault::{Code, Fault};

use super::fault;

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// A name in an open directory. Whether something has that name is another question.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) dir: OwnedFd,
    pub(super) name: OsString,
}

/// The path as the system is to see it, relative to the session's directory.
pub(super) fn absolute(dir: &str, path: &str) -> Result<PathBuf, Fault> {
    if path.is_empty() {
        return Err(fault::new(Code::InvalidParams, path, "is not a path"));
    }
    if path.contains('\0') {
        return Err(fault::new(Code::InvalidParams, path, "has a NUL byte"));
    }
    Ok(Path::new(dir).join(path))
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

impl Located {
    /// The entry itself: a link is not followed.
    pub(super) fn entry(path: &Path) -> io::Result<Located> {
        match path.components().next_back() {
            Some(Component::Normal(name)) => {
                let parent = path.parent().unwrap_or(Path::new("/"));
                Ok(Located { dir: open_dir(parent)?, name: name.to_owned() })
            }
            // `/`, `.` and `..` name a directory from the inside.
            _ => Ok(Located { dir: open_dir(path)?, name: OsString::from(".") }),
        }
    }

    /// What is meant when the file is read or written: links are followed, also to what does
    /// not exist yet.
    pub(super) fn target(path: &Path) -> io::Result<Located> {
        let mut at = Located::entry(path)?;
        for _ in 0..MAX_LINKS {
            match readlinkat(&at.dir, &at.name, Vec::new()) {
                Ok(link) => {
                    let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
                    at = at.follow(&link)?;
                }
                // No link, or nothing there.
                Err(Errno::INVAL | Errno::NOENT) => return Ok(at),
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::LOOP.into())
    }

    fn follow(&self, link: &Path) -> io::Result<Located> {
        let Some(Component::Normal(name)) = link.components().next_back() else {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = openat(&self.dir, link, flags, Mode::empty())?;
            return Ok(Located { dir, name: OsString::from(".") });
        };
        let parent = link.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.dir, parent, flags, Mode::empty())?;
        Ok(Located { dir, name: name.to_owned() })
    }

    /// What has the name now, if anything; a link is not followed.
    pub(super) fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file. Never waits for the other end of a pipe, never follows a link
    /// that has just been put in its place.
    pub(super) fn open(&self, flags: OFlags) -> io::Result<(std::fs::File, Stat)> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(&self.dir, &self.name, flags, Mode::empty()).map_err(|error| match error {
            // A socket, or a pipe without the other end.
            Errno::NXIO => Errno::INVAL,
            error => error,
        })?;
        let stat = rustix::fs::fstat(file.as_fd())?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((std::fs::File::from(file), stat)),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    /// Another name in the same directory, which nobody else uses. A process id would not do: sessions that share
    /// the directory may each have their own.
    pub(super) fn fresh_name(&self) -> io::Result<OsString> {
        let mut number = [0; 8];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let number = u64::from_ne_bytes(number);
        // Kept short: a name has at most 255 bytes.
        let kept = &self.name.as_bytes()[..self.name.len().min(200)];
        let mut fresh = OsString::from(".");
        fresh.push(OsStr::from_bytes(kept));
        fresh.push(format!(".trl-{number:016x}"));
        Ok(fresh)
    }
}
