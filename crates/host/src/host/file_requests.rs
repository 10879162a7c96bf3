//! Requests about files: handed to a child, answered when it is done.

use trl_protocol::exec::Stream;
use trl_protocol::fault::Fault;
use trl_protocol::file::{FileDone, FileOp};
use trl_protocol::wire::FromHost;

use super::Host;
use crate::commands::Requester;
use crate::files::{self, FileAnswer};

/// The largest data frame: as much as one of a command's.
const PIECE: usize = 64 * 1024;

impl Host {
    pub(super) fn on_file(&mut self, requester: Requester, op: &FileOp) -> Result<Option<FromHost>, Fault> {
        let (cage, dir) = (&mut self.cage, self.state.cwd());
        let started = self.files.start(requester, || match cage.is_closed() {
            true => files::spawn_inside(cage, dir, op),
            false => files::spawn(dir, op),
        });
        started.map(|()| None).map_err(|(_, fault)| fault)
    }

    pub(super) fn on_file_worker(&mut self, number: u64) {
        let Some((requester, answer)) = self.files.on_ready(number) else { return };
        let FileAnswer { result, bytes } = answer;
        let done = match result {
            Ok(done) => done,
            Err(fault) => return self.subscribers.refuse(requester, fault),
        };
        let mut offset = match &done {
            FileDone::Read { offset, .. } => *offset,
            _ => 0,
        };
        for piece in bytes.chunks(PIECE) {
            self.subscribers.send_data(requester, Stream::Stdout, offset, piece);
            offset += piece.len() as u64;
        }
        let req = requester.req;
        self.subscribers.reply(requester, Ok(Some(FromHost::File { req, done: Box::new(done) })));
    }
}
