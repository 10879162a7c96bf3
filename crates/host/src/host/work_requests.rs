//! Requests that a worker does: handed to a child, answered when it is done.

use trl_protocol::exec::Stream;
use trl_protocol::fault::Fault;
use trl_protocol::file::{FileDone, FileOp};
use trl_protocol::wire::FromHost;

use super::Host;
use crate::commands::Requester;
use crate::workers::{self, Done, Work, WorkAnswer};

/// The largest data frame: as much as one of a command's.
const PIECE: usize = 64 * 1024;

impl Host {
    pub(super) fn on_file(&mut self, requester: Requester, op: FileOp) -> Result<Option<FromHost>, Fault> {
        let dir = self.state.cwd().to_owned();
        self.on_work(requester, &Work::File { dir, op })
    }

    pub(super) fn on_work(&mut self, requester: Requester, work: &Work) -> Result<Option<FromHost>, Fault> {
        let cage = &mut self.cage;
        let started = self.workers.start(requester, || workers::spawn(cage, work));
        started.map(|()| None).map_err(|(_, fault)| fault)
    }

    pub(super) fn on_worker(&mut self, number: u64) {
        let Some((requester, answer)) = self.workers.on_ready(number) else { return };
        let WorkAnswer { result, bytes } = answer;
        let req = requester.req;
        let done = match result {
            Ok(Done::Port(seen)) => FromHost::Port { req, seen },
            Ok(Done::File(done)) => {
                let offset = match &done {
                    FileDone::Read { offset, .. } => *offset,
                    _ => 0,
                };
                self.send_read(requester, offset, &bytes);
                FromHost::File { req, done: Box::new(done) }
            }
            Err(fault) => return self.subscribers.refuse(requester, fault),
        };
        self.subscribers.reply(requester, Ok(Some(done)));
    }

    fn send_read(&mut self, requester: Requester, mut offset: u64, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            self.subscribers.send_data(requester, Stream::Stdout, offset, piece);
            offset += piece.len() as u64;
        }
    }
}
