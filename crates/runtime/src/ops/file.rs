//! `file.…`: files as the session sees them. The session's host does the work.

pub(crate) mod edit;
pub(crate) mod list;
pub(crate) mod make_dir;
pub(crate) mod move_file;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod stat;
pub(crate) mod write;

use trl_protocol::file::{FileDone, FileOp};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, SessionId};

use crate::output::Range;
use crate::runtime::Inner;
use crate::session::unexpected;

/// A host's answer about a file.
struct Answered {
    session: SessionId,
    done: FileDone,
    /// The part of the file that was read.
    bytes: Vec<u8>,
}

/// An answer to something else than was asked.
fn wrong_kind(session: SessionId) -> Fault {
    Fault::internal(format!("the host of session {session} gave an answer of the wrong kind"))
}

/// Has the session's host do it.
async fn ask(runtime: &Inner, session_id: &str, op: FileOp) -> Result<Answered, Fault> {
    let session = runtime.living(session_id).await?;
    let answer = session.link.call(|req| ToHost::File { req, file: Box::new(op) }).await?;
    let FromHost::File { done, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    let mut bytes = Vec::new();
    for Range { bytes: piece, .. } in answer.ranges {
        bytes.extend(piece);
    }
    Ok(Answered { session: session.id, done: *done, bytes })
}
