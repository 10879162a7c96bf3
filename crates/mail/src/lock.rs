//! One owner: a kernel lock on the state directory.
//!
//! The kernel drops the lock when its holder dies, however it dies, so there is
//! nothing to steal and no window for two owners. A child that the dead holder was just
//! starting has the lock too, until it runs its program: that moment is waited for.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::MailError;
use crate::presence::{Processes, SystemProcesses};

/// How long a child may take to run its program, on a machine that is out of breath.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct OwnerLock {
    _file: File,
}

impl OwnerLock {
    /// Makes the directory private if it is not there; refuses if someone holds it.
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
        let begun = Instant::now();
        loop {
            let holder = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => holder(&mut file),
                Err(error) => {
                    return Err(MailError::Io { what: "cannot lock the mail".into(), source: error.into() });
                }
            };
            let is_dead = holder.is_some_and(|pid| SystemProcesses.start_of(pid).is_none());
            if !is_dead || begun.elapsed() > PATIENCE {
                let who = holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                return Err(MailError::owned(path, who));
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let note = |error| MailError::io("cannot note who holds the mail")(error);
        file.set_len(0).map_err(note)?;
        file.seek(SeekFrom::Start(0)).map_err(note)?;
        writeln!(file, "{}", std::process::id()).map_err(note)?;
        Ok(OwnerLock { _file: file })
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

pub(crate) fn private_dir(dir: &Path) -> Result<(), MailError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(MailError::io(format!("cannot make {}", dir.display())))
}
