//! A file that at most one process holds locked, and in which the holder notes who it is.
//!
//! The kernel releases the lock when its holder ends, however it ends. A child process shares its parent's
//! open files until it runs a program of its own, so a lock can outlive its holder for that long;
//! callers that find the noted holder dead should try again for a short time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

/// No note is longer.
const MAX_NOTE_BYTES: usize = 1024;

/// An open lock file; dropping it releases the lock.
#[derive(Debug)]
pub struct LockFile {
    path: PathBuf,
    file: File,
}

impl LockFile {
    /// Opens the file without locking it. A missing one is made, readable by this user only. A
    /// symbolic link is refused, since it could lead to any file of this user.
    pub fn open(path: &Path) -> io::Result<LockFile> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(path)?;
        Ok(LockFile { path: path.to_owned(), file })
    }

    /// Returns false if another process holds it.
    pub fn try_lock(&self) -> io::Result<bool> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Blocks until nobody else holds it.
    pub fn lock(&self) -> io::Result<()> {
        loop {
            match flock(&self.file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                done => return done.map_err(io::Error::from),
            }
        }
    }

    /// Replaces the note.
    pub fn write_note(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(format!("{text}\n").as_bytes(), 0)
    }

    /// What the holder noted; empty if nothing.
    pub fn note(&self) -> io::Result<String> {
        let mut bytes = [0; MAX_NOTE_BYTES];
        let count = self.file.read_at(&mut bytes, 0)?;
        Ok(String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).trim().to_owned())
    }

    /// Whether the path still names this very file. Another process may have removed or replaced it.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match self.path.symlink_metadata() {
            Ok(there) => Ok((held.dev(), held.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_its_note_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let first = LockFile::open(&path).unwrap();
        assert!(first.try_lock().unwrap());
        first.write_note("a long first note").unwrap();
        first.write_note("42 ending").unwrap();
        let second = LockFile::open(&path).unwrap();
        assert!(!second.try_lock().unwrap());
        assert_eq!(second.note().unwrap(), "42 ending");
        drop(first);
        assert!(second.try_lock().unwrap());
        assert!(second.is_in_place().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!second.is_in_place().unwrap());
        std::fs::write(&path, "").unwrap();
        assert!(!second.is_in_place().unwrap(), "a new file in its place is another file");
    }

    #[test]
    fn a_symbolic_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        std::os::unix::fs::symlink(dir.path().join("target"), &path).unwrap();
        LockFile::open(&path).unwrap_err();
        assert!(!dir.path().join("target").exists());
    }
}
