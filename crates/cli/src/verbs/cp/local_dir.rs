//! Writing below a directory here, whatever the other side says names are.
//!
//! Names come from a session, and what is in the directory may be somebody's trick as well:
//! each directory is opened without following links, and everything happens in it by
//! single names. So nothing is ever written anywhere else.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

#[derive(Debug)]
pub(super) struct LocalDir(OwnedFd);

impl LocalDir {
    /// A directory that the person has named: links on the way to it are theirs.
    pub(super) fn open(path: &Path) -> io::Result<LocalDir> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(LocalDir(openat(CWD, path, flags, Mode::empty())?))
    }

    /// A directory in this one, made if it is not there.
    pub(super) fn enter(&self, name: &str) -> io::Result<LocalDir> {
        let name = single(name)?;
        match mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(LocalDir(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// A file in this directory to add to.
    pub(super) fn append_to(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, single(name)?, flags, Mode::from_raw_mode(mode | 0o200))?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, single(from)?, &self.0, single(to)?)?)
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, single(name)?, AtFlags::empty())?)
    }
}

/// A name that stays in its directory.
fn single(name: &str) -> io::Result<&OsStr> {
    let fine = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    fine.then(|| OsStr::new(name)).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not the name of a file in a directory"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).unwrap();
        std::fs::write(outside.path().join("file"), "theirs").unwrap();
        std::os::unix::fs::symlink(outside.path().join("file"), dir.path().join("file")).unwrap();
        let open = LocalDir::open(dir.path()).unwrap();
        for name in ["..", ".", "", "a/b", "/etc", "link", "nul\0"] {
            assert!(open.enter(name).is_err(), "{name:?}");
        }
        for name in ["../x", "a/b", "file", ".."] {
            assert!(open.append_to(name, 0o600).is_err(), "{name:?}");
        }
        assert!(open.rename("link", "../x").is_err());
        assert!(open.enter("new").is_ok() && open.append_to("fresh", 0o600).is_ok());
        assert_eq!(std::fs::read_to_string(outside.path().join("file")).unwrap(), "theirs");
    }
}
