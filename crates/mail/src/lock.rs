//! One owner: a kernel lock on the state directory.
//!
//! The kernel drops the lock when its holder dies, however it dies, so there is
//! nothing to steal, nothing to time out and no window for two owners.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::MailError;

#[derive(Debug)]
pub struct OwnerLock {
    _file: File,
}

impl OwnerLock {
    /// Makes the directory private if it is not there; refuses at once if someone holds it.
    pub fn take(dir: &Path) -> Result<OwnerLock, MailError> {
        private_dir(dir)?;
        let path = dir.join("mail.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(MailError::io(format!("cannot open {}", path.display())))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(MailError::owned(path, holder(&mut file))),
            Err(error) => {
                return Err(MailError::Io { what: "cannot lock the mail".into(), source: error.into() });
            }
        }
        let note = |error| MailError::io("cannot note who holds the mail")(error);
        file.set_len(0).map_err(note)?;
        file.seek(SeekFrom::Start(0)).map_err(note)?;
        writeln!(file, "{}", std::process::id()).map_err(note)?;
        Ok(OwnerLock { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}

pub(crate) fn private_dir(dir: &Path) -> Result<(), MailError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(MailError::io(format!("cannot make {}", dir.display())))
}
