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
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{FileDone, FileOp};

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
    /// Has a child do it. `dir` is what relative paths are relative to. `enter` is called in
    /// the child first, to give it no more rights than the session has.
    pub(crate) fn start(
        &mut self,
        requester: R,
        dir: &str,
        op: &FileOp,
        enter: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), (R, Fault)> {
        if self.workers.len() >= MAX_WORKERS {
            let message =
                format!("{MAX_WORKERS} requests about files are already under way; try again later");
            return Err((requester, Fault::new(Code::ResourcePressure, message)));
        }
        match spawn(dir, op, enter) {
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

fn spawn(dir: &str, op: &FileOp, enter: impl FnOnce() -> io::Result<()>) -> io::Result<UnixStream> {
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
            let answered = answer(dir, op, enter, &mut theirs);
            // SAFETY: ends this process without running what the host wants to run at its own end.
            unsafe { libc::_exit(i32::from(answered.is_err())) }
        }
        _ => Ok(ours),
    }
}

fn answer(
    dir: &str,
    op: &FileOp,
    enter: impl FnOnce() -> io::Result<()>,
    to: &mut UnixStream,
) -> io::Result<()> {
    let entered = enter().map_err(|error| Fault::refused_by_system("the session cannot be entered", &error));
    let (told, bytes) = match entered.and_then(|()| work::perform(dir, op)) {
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
