//! A lock file that says who holds it, and is free as soon as its holder is gone.
//!
//! A child has what its parent has open until it runs a program of its own. If the holder is
//! killed at that very moment, its lock outlives it by as long; who comes next waits for that.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use trl_sys::lock::LockFile;
use trl_sys::process::is_dead;

/// How long a daemon that ends may take with its sessions.
const PATIENCE: Duration = Duration::from_secs(25);
/// Before looking again at a lock whose holder is dead: the file may have a new one any time,
/// so a wait for the lock alone could be for somebody who is to stay.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const ENDING: &str = "ending";

#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("held by another process")]
    Held { pid: Option<u32>, ending: bool },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Held until dropped; the file goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: LockFile,
    /// Whoever had it last did not get to remove it.
    pub(crate) was_left: bool,
}

impl Lock {
    /// Takes the lock. If its holder says that it is about to end, or is dead, waits for that.
    pub(crate) async fn take(path: &Path) -> Result<Lock, LockError> {
        let begun = Instant::now();
        let held = loop {
            match Lock::try_take(path, LockFile::try_lock) {
                Err(LockError::Held { pid, ending: true }) => break LockError::Held { pid, ending: true },
                Err(LockError::Held { pid: Some(pid), .. }) if is_dead(pid) && begun.elapsed() < PATIENCE => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                other => return other,
            }
        };
        let path = path.to_owned();
        let waiting = tokio::task::spawn_blocking(move || {
            Lock::try_take(&path, |file: &LockFile| file.lock().map(|()| true))
        });
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(taken)) => taken,
            Ok(Err(_)) | Err(_) => Err(held),
        }
    }

    fn try_take(path: &Path, lock: impl Fn(&LockFile) -> io::Result<bool>) -> Result<Lock, LockError> {
        loop {
            let file = LockFile::open(path)?;
            if !lock(&file)? {
                return Err(held(&file)?);
            }
            // Its last holder may have removed it between our open and our lock.
            if file.is_in_place()? {
                let was_left = !file.note()?.is_empty();
                file.write_note(&std::process::id().to_string())?;
                return Ok(Lock { file, was_left });
            }
        }
    }

    /// Whether the file that others look at is still the one that is held.
    pub(crate) fn is_there(&self) -> bool {
        self.file.is_in_place().unwrap_or(false)
    }

    /// Tells who comes next that waiting is worth while.
    pub(crate) fn announce_end(&self) {
        if let Err(error) = self.file.write_note(&format!("{} {ENDING}", std::process::id())) {
            tracing::warn!(path = %self.file.path().display(), %error, "a lock file could not be written");
        }
    }
}

fn held(file: &LockFile) -> io::Result<LockError> {
    let text = file.note()?;
    let mut words = text.split_whitespace();
    let pid = words.next().and_then(|word| word.parse().ok());
    Ok(LockError::Held { pid, ending: words.next() == Some(ENDING) })
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_there()
            && let Err(error) = fs::remove_file(self.file.path())
        {
            tracing::warn!(path = %self.file.path().display(), %error, "a lock file could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::fs::{FlockOperation, flock};
    use rustix::process::{Pid, WaitId, WaitIdOptions};

    use super::*;

    #[tokio::test]
    async fn one_holder_at_a_time_and_no_file_after_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        fs::write(&path, "99999999 left by a crash").unwrap();
        let lock = Lock::take(&path).await.unwrap();
        assert!(lock.was_left);
        let held = Lock::take(&path).await.unwrap_err();
        let me = std::process::id();
        assert!(matches!(held, LockError::Held { pid: Some(pid), ending: false } if pid == me), "{held:?}");
        drop(lock);
        assert!(!path.exists());
        assert!(!Lock::take(&path).await.unwrap().was_left);
    }

    #[tokio::test]
    async fn the_next_waits_for_one_that_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        let lock = Lock::take(&path).await.unwrap();
        lock.announce_end();
        let next = tokio::spawn({
            let path = path.clone();
            async move { Lock::take(&path).await }
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        drop(lock);
        let lock = next.await.unwrap().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap().trim(), std::process::id().to_string());
        drop(lock);
    }

    #[tokio::test]
    async fn the_next_waits_for_what_the_child_of_a_dead_one_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.lock");
        // Not waited for, so that nobody else gets its pid.
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(Pid::from_child(&dead)), ended).unwrap();
        let held = File::create(&path).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        fs::write(&path, format!("{}\n", dead.id())).unwrap();
        let next = tokio::spawn({
            let path = path.clone();
            async move { Lock::take(&path).await }
        });
        tokio::time::sleep(4 * LOOK_AGAIN).await;
        assert!(!next.is_finished());
        drop(held);
        let lock = next.await.unwrap().unwrap();
        assert!(is_dead(dead.id()) && !is_dead(std::process::id()));
        dead.wait().unwrap();
        assert!(is_dead(dead.id()));
        drop(lock);
    }
}
