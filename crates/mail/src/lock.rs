//! One owner: a kernel lock on the state directory.
//!
//! The kernel releases the lock when its holder ends, so there is nothing to steal and no moment with
//! two owners. A child process that the holder was just starting shares the lock until it runs its
//! program; if the holder is dead, that short time is waited for.

use std::path::Path;
use std::time::{Duration, Instant};

use trl_sys::lock::LockFile;
use trl_sys::process;

use crate::error::MailError;

/// How long a child may take to run its program, on a heavily loaded machine.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct OwnerLock {
    _file: LockFile,
}

impl OwnerLock {
    /// Makes the directory private if it is not there; refuses if another process holds the lock.
    pub fn take(dir: &Path) -> Result<OwnerLock, MailError> {
        private_dir(dir)?;
        let path = dir.join("mail.lock");
        let file = LockFile::open(&path).map_err(MailError::io(format!("cannot open {}", path.display())))?;
        let begun = Instant::now();
        while !file.try_lock().map_err(MailError::io("cannot lock the mail"))? {
            let holder: Option<u32> = file.note().ok().and_then(|note| note.parse().ok());
            if !holder.is_some_and(process::is_dead) || begun.elapsed() > PATIENCE {
                let who = holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                return Err(MailError::owned(path, who));
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let noted = file.write_note(&std::process::id().to_string());
        noted.map_err(MailError::io("cannot note who holds the mail"))?;
        Ok(OwnerLock { _file: file })
    }
}

pub(crate) fn private_dir(dir: &Path) -> Result<(), MailError> {
    trl_sys::private::create_dir(dir).map_err(MailError::io(format!("cannot make {}", dir.display())))
}
