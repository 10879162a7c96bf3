//! Requests about files, each done by a short-lived child of the host.
//!
//! A child of its own, because a request may take long (a large tree, a slow disk) and the
//! host must not wait. It does nothing but this one request, and answers over a socket; the
//! host passes the answer on when the socket ends. Nobody else waits for it.
//!
//! `work.rs` does what is asked, `path.rs` finds files without following links behind the
//! caller's back, `fault.rs` says what went wrong.

mod edit;
mod fault;
mod glob;
mod list;
mod path;
mod read;
mod work;
mod write;

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{FileDone, FileOp};

use crate::cage::Cage;

/// Requests that are done at the same time.
const MAX_WORKERS: usize = 16;

/// Read at once from a worker.
const CHUNK: usize = 256 * 1024;

/// What a request was answered with.
#[derive(Debug, PartialEq)]
pub(crate) struct FileAnswer {
    pub(crate) result: Result<FileDone, Fault>,
    /// The part of the file that was read.
    pub(crate) bytes: Vec<u8>,
}

/// The children that are at work. `R` is who asked.
#[derive(Debug)]
pub(crate) struct FileWorkers<R> {
    workers: BTreeMap<u64, Worker<R>>,
    next: u64,
}

#[derive(Debug)]
struct Worker<R> {
    requester: R,
    socket: UnixStream,
    heard: Vec<u8>,
}

/// The first line of an answer; the bytes of the file follow it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Done(FileDone),
    Failed(Fault),
}

impl<R> Default for FileWorkers<R> {
    fn default() -> FileWorkers<R> {
        FileWorkers { workers: BTreeMap::new(), next: 0 }
    }
}

impl<R> FileWorkers<R> {
    /// Has a child do it, which answers over the socket that `spawn` returns.
    pub(crate) fn start(
        &mut self,
        requester: R,
        spawn: impl FnOnce() -> io::Result<UnixStream>,
    ) -> Result<(), (R, Fault)> {
        if self.workers.len() >= MAX_WORKERS {
            let message =
                format!("{MAX_WORKERS} requests about files are already under way; try again later");
            return Err((requester, Fault::new(Code::ResourcePressure, message)));
        }
        match spawn() {
            Ok(socket) => {
                let number = self.next;
                self.next += 1;
                self.workers.insert(number, Worker { requester, socket, heard: Vec::new() });
                Ok(())
            }
            Err(error) => {
                Err((requester, Fault::refused_by_system("the file cannot be looked at now", &error)))
            }
        }
    }

    /// What to wait for.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.workers.iter().map(|(number, worker)| (*number, worker.socket.as_fd()))
    }

    /// Something has come from a worker; its answer, if that is whole.
    pub(crate) fn on_ready(&mut self, number: u64) -> Option<(R, FileAnswer)> {
        let worker = self.workers.get_mut(&number)?;
        let before = worker.heard.len();
        worker.heard.resize(before + CHUNK, 0);
        let read = worker.socket.read(&mut worker.heard[before..]);
        worker.heard.truncate(before + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => {}
            Ok(_) => return None,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return None;
            }
            Err(_) => {}
        }
        let worker = self.workers.remove(&number)?;
        Some((worker.requester, FileAnswer::parse(worker.heard)))
    }
}

impl FileAnswer {
    fn parse(mut heard: Vec<u8>) -> FileAnswer {
        let line = heard.iter().position(|&byte| byte == b'\n').unwrap_or(heard.len());
        let told = serde_json::from_slice(&heard[..line]);
        heard.drain(..heard.len().min(line + 1));
        let result = match told {
            Ok(Told::Done(done)) => Ok(done),
            Ok(Told::Failed(fault)) => Err(fault),
            Err(_) => Err(Fault::internal("the process that did this was ended before it was done")),
        };
        FileAnswer { result, bytes: heard }
    }
}

/// A child beside the host does it. `dir` is what relative paths are relative to.
pub(crate) fn spawn(dir: &str, op: &FileOp) -> io::Result<UnixStream> {
    let (ours, mut theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    // SAFETY: the host has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            // Nobody handles these here; the host's handlers write into pipes that it shares.
            for signal in [libc::SIGTERM, libc::SIGCHLD] {
                // SAFETY: the default action has no preconditions.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            let answered = answer(dir, op, &mut theirs);
            // SAFETY: ends this process without running what the host wants to run at its own end.
            unsafe { libc::_exit(i32::from(answered.is_err())) }
        }
        _ => Ok(ours),
    }
}

/// A process inside the session's cage does it: it sees what the session sees, and may do what that may.
pub(crate) fn spawn_inside(cage: &mut Cage, dir: &str, op: &FileOp) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    cage.work(&serde_json::to_vec(&(dir, op))?, theirs.as_fd())?;
    Ok(ours)
}

/// In that process.
pub(crate) fn perform_inside(request: &[u8], to: OwnedFd) {
    if let Ok((dir, op)) = serde_json::from_slice::<(String, FileOp)>(request) {
        // If the host is gone, nobody waits for the answer.
        answer(&dir, &op, &mut UnixStream::from(to)).ok();
    }
}

fn answer(dir: &str, op: &FileOp, to: &mut UnixStream) -> io::Result<()> {
    let (told, bytes) = match work::perform(dir, op) {
        Ok((done, bytes)) => (Told::Done(done), bytes),
        Err(fault) => (Told::Failed(fault), Vec::new()),
    };
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests;
