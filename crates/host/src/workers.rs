//! What may take long, each done by a short-lived child of the host: a request about files, a look at a port.
//!
//! A child of its own, because a large tree, a slow disk or a network may take their time and the host must not
//! wait. It does nothing but this one thing, and answers over a socket; the host passes the answer on when the
//! socket ends. Nobody else waits for it. In an isolated session it is a process inside the cage, which sees what the
//! session sees and may do what that may.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use trl_protocol::exec::PortUntil;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{FileDone, FileOp};
use trl_protocol::wire::PortSeen;

use crate::cage::Cage;
use crate::{files, port};

/// Children at the same time.
const MAX_WORKERS: usize = 16;

/// Read at once from a worker.
const CHUNK: usize = 256 * 1024;

/// What a child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// `dir` is what relative paths are relative to.
    File {
        dir: String,
        op: FileOp,
    },
    Port(PortUntil),
}

/// What it has done.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Done {
    File(FileDone),
    Port(PortSeen),
}

#[derive(Debug, PartialEq)]
pub(crate) struct WorkAnswer {
    pub(crate) result: Result<Done, Fault>,
    /// The part of the file that was read.
    pub(crate) bytes: Vec<u8>,
}

/// The children that are at work. `R` is who asked.
#[derive(Debug)]
pub(crate) struct Workers<R> {
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
enum Told {
    Done(Done),
    Failed(Fault),
}

impl<R> Default for Workers<R> {
    fn default() -> Workers<R> {
        Workers { workers: BTreeMap::new(), next: 0 }
    }
}

impl<R> Workers<R> {
    /// Has a child do it, which answers over the socket that `spawn` returns.
    pub(crate) fn start(
        &mut self,
        requester: R,
        spawn: impl FnOnce() -> io::Result<UnixStream>,
    ) -> Result<(), (R, Fault)> {
        if self.workers.len() >= MAX_WORKERS {
            let message = format!(
                "{MAX_WORKERS} requests about files and ports are already under way; try again later"
            );
            return Err((requester, Fault::new(Code::ResourcePressure, message)));
        }
        match spawn() {
            Ok(socket) => {
                let number = self.next;
                self.next += 1;
                self.workers.insert(number, Worker { requester, socket, heard: Vec::new() });
                Ok(())
            }
            Err(error) => Err((requester, Fault::refused_by_system("this cannot be done now", &error))),
        }
    }

    /// What to wait for.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        self.workers.iter().map(|(number, worker)| (*number, worker.socket.as_fd()))
    }

    /// Something has come from a worker; its answer, if that is whole.
    pub(crate) fn on_ready(&mut self, number: u64) -> Option<(R, WorkAnswer)> {
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
        Some((worker.requester, WorkAnswer::parse(worker.heard)))
    }
}

impl WorkAnswer {
    fn parse(mut heard: Vec<u8>) -> WorkAnswer {
        let line = heard.iter().position(|&byte| byte == b'\n').unwrap_or(heard.len());
        let told = serde_json::from_slice(&heard[..line]);
        heard.drain(..heard.len().min(line + 1));
        let result = match told {
            Ok(Told::Done(done)) => Ok(done),
            Ok(Told::Failed(fault)) => Err(fault),
            Err(_) => Err(Fault::internal("the process that did this was ended before it was done")),
        };
        WorkAnswer { result, bytes: heard }
    }
}

/// A child where the session's processes run does it.
pub(crate) fn spawn(cage: &mut Cage, work: &Work) -> io::Result<UnixStream> {
    match cage.is_closed() {
        true => spawn_inside(cage, work),
        false => spawn_beside(work),
    }
}

fn spawn_beside(work: &Work) -> io::Result<UnixStream> {
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
            // A pipe that the host closes must not stay open here: its reader waits for its end.
            let answered = crate::close_all_but(&theirs).and_then(|()| answer(work, &mut theirs));
            // SAFETY: ends this process without running what the host wants to run at its own end.
            unsafe { libc::_exit(i32::from(answered.is_err())) }
        }
        _ => Ok(ours),
    }
}

fn spawn_inside(cage: &mut Cage, work: &Work) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    cage.work(&serde_json::to_vec(work)?, theirs.as_fd())?;
    Ok(ours)
}

/// In the process inside.
pub(crate) fn perform_inside(request: &[u8], to: OwnedFd) {
    if let Ok(work) = serde_json::from_slice::<Work>(request) {
        // If the host is gone, nobody waits for the answer.
        answer(&work, &mut UnixStream::from(to)).ok();
    }
}

fn answer(work: &Work, to: &mut UnixStream) -> io::Result<()> {
    let done = match work {
        Work::File { dir, op } => files::perform(dir, op).map(|(done, bytes)| (Done::File(done), bytes)),
        Work::Port(until) => Ok((Done::Port(port::look(until)), Vec::new())),
    };
    let (told, bytes) = match done {
        Ok((done, bytes)) => (Told::Done(done), bytes),
        Err(fault) => (Told::Failed(fault), Vec::new()),
    };
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.write_all(&bytes)
}
