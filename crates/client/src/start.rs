//! Starts a daemon when there is none.
//!
//! Clients that race take turns by a lock that the kernel lets go of when its holder
//! ends. The one whose turn it is looks again before it starts anything, so there is
//! one daemon however many ask at once. The child's stdout says when it listens.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use trl_sys::lock::LockFile;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::options::Start;
use crate::readiness::Readiness;

/// A daemon listens within milliseconds; one that waits for another to end takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon may be killed as soon as it listens; the next one is not, unless somebody means it.
const STARTS: usize = 3;

/// Connects to the daemon that is there or is started now.
pub(crate) async fn connect(socket: &Path, start: &Start) -> Result<Connection> {
    let _turn = take_turn(start).await?;
    let mut found = Connection::open(socket).await;
    for _ in 0..STARTS {
        let Err(Error::NoDaemon { .. }) = found else { break };
        let said = launch(start).await?;
        found = Connection::open(socket).await;
        // Refused because another is there, and that one answers: all is well.
        if let (Err(_), Readiness::Refused { message, help }) = (&found, said) {
            return Err(Error::NotStarted { message, help: help.or_else(|| Some(see_log(start))) });
        }
    }
    found
}

async fn take_turn(start: &Start) -> Result<LockFile> {
    let path = start.lock.clone();
    let locked = tokio::task::spawn_blocking(move || lock(&path)).await;
    locked.map_err(io::Error::other).and_then(|locked| locked).map_err(|error| Error::NotStarted {
        message: format!("{}: {error}", start.lock.display()),
        help: Some("choose a directory of your own with TRL_HOME".to_owned()),
    })
}

fn lock(path: &Path) -> io::Result<LockFile> {
    if let Some(dir) = path.parent() {
        trl_sys::private::create_dir(dir)?;
        // In a directory of somebody else's the file could be anything.
        if dir.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the directory belongs to another user",
            ));
        }
    }
    let file = LockFile::open(path)?;
    file.lock()?;
    Ok(file)
}

async fn launch(start: &Start) -> Result<Readiness> {
    let not_started = |message: String| Error::NotStarted { message, help: Some(see_log(start)) };
    let mut child = Command::new(&start.program)
        .args(&start.args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| not_started(format!("{}: {error}", start.program.display())))?;
    let Some(stdout) = child.stdout.take() else {
        return Err(not_started("it has no stdout to report on".to_owned()));
    };
    let mut line = Vec::new();
    let mut stdout = BufReader::new(stdout);
    let read = stdout.read_until(b'\n', &mut line);
    match tokio::time::timeout(PATIENCE, read).await {
        Err(_) => Err(not_started(format!("it said nothing for {} s", PATIENCE.as_secs()))),
        Ok(Err(error)) => Err(not_started(error.to_string())),
        Ok(Ok(_)) => match Readiness::from_line(&line) {
            Some(said) => Ok(said),
            None => {
                let ended = child.wait().await.map_or_else(|e| e.to_string(), |status| status.to_string());
                Err(not_started(format!("it ended immediately ({ended})")))
            }
        },
    }
}

fn see_log(start: &Start) -> String {
    format!("{} may tell more", start.log.display())
}
