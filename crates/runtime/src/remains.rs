//! What a lost session has left on disk, read by the daemon while there is no host to ask.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use trl_journal::{Journal, KeptExec, Moment, SessionFile, Since, recover};
use trl_protocol::exec::{ExecInfo, Outcome, Stream};
use trl_protocol::session::SessionInfo;
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Code, ExecId, Fault, SessionId};

use crate::aside::aside;
use crate::link::End;
use crate::output::Range;
use crate::registry::Found;
use crate::runtime::Inner;
use crate::session::{Places, Session};

/// The output and the outcomes of a lost session's commands.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) session: SessionId,
    working_dir: String,
    journal: Journal,
    execs: BTreeMap<u64, KeptExec>,
}

/// Where a command's output is.
#[derive(Debug)]
pub(crate) enum ExecPlace {
    Host(Arc<Session>, u64),
    Disk(Box<Remains>, u64),
}

impl Inner {
    /// Who can tell about a command: its session's host or, if that is gone, what it left.
    pub(crate) async fn exec(&self, exec_id: &str) -> Result<ExecPlace, Fault> {
        match self.registry.find_exec(exec_id)? {
            (Found::Living(session), number) => Ok(ExecPlace::Host(session, number)),
            (Found::Past { end: End::Lost, info }, number) => {
                Ok(ExecPlace::Disk(Box::new(self.remains(*info).await?), number))
            }
            (other, _) => Err(other.refusal()),
        }
    }

    pub(crate) async fn remains(&self, info: SessionInfo) -> Result<Remains, Fault> {
        let places = self.places(info.session_id);
        Remains::open(info, places).await
    }
}

/// What a session last told about itself; None if it left no word.
pub(crate) fn last_info(places: &Places) -> Option<SessionInfo> {
    let file: SessionFile = SessionFile::read(&places.state_dir).ok()?;
    Some(file.info)
}

/// The same of a session whose host is gone: with the commands that came after it told.
pub(crate) async fn final_info(places: &Places) -> Option<SessionInfo> {
    let dir = places.state_dir.clone();
    let read = aside(move || {
        let file: SessionFile<Since> = SessionFile::read(&dir).ok()?;
        let later = recover::read(&dir).map_or(0, |(_, kept)| file.state.commands(&kept));
        Some(SessionInfo { command_count: file.info.command_count + later, ..file.info })
    });
    // Without a thread for it, what was told last must do.
    read.await.unwrap_or_else(|_| last_info(places))
}

/// When it did so.
pub(crate) fn last_written(places: &Places) -> Option<Moment> {
    let file: SessionFile = SessionFile::read(&places.state_dir).ok()?;
    file.written
}

/// What a new host needs to go on with the session.
pub(crate) fn spec(id: SessionId, places: &Places) -> Result<SessionSpec, Fault> {
    let read: io::Result<SessionFile> = SessionFile::read(&places.state_dir);
    let unreadable = |error: io::Error| {
        Fault::internal(format!(
            "what session {id} left in {} cannot be read: {error}; create a new session",
            places.state_dir.display()
        ))
    };
    Ok(SessionSpec { resume: true, ..read.map_err(unreadable)?.spec })
}

impl Remains {
    async fn open(info: SessionInfo, places: Places) -> Result<Remains, Fault> {
        let session = info.session_id;
        let read = aside(move || recover::read(&places.state_dir)).await.map_err(|error| {
            Fault::refused_by_system("what a lost session left cannot be read now", &error)
        })?;
        let (journal, execs) = read.map_err(|error| {
            let message = format!("session {session} is lost, and its output cannot be read: {error}");
            Fault::new(Code::ExecNotFound, message)
        })?;
        Ok(Remains { session, working_dir: info.working_dir, journal, execs })
    }

    pub(crate) fn exec_id(&self, number: u64) -> ExecId {
        ExecId { session: self.session, number }
    }

    fn known(&self, number: u64) -> Result<&KeptExec, Fault> {
        let id = self.exec_id(number);
        self.execs.get(&number).ok_or_else(|| {
            Fault::new(
                Code::ExecNotFound,
                format!("the lost session {} has kept no command {id}", self.session),
            )
            .with_details(serde_json::json!({ "exec_id": id }))
        })
    }

    pub(crate) fn list(&self) -> Vec<ExecInfo> {
        self.execs.values().map(|exec| exec.info(self.session, &self.working_dir)).collect()
    }

    pub(crate) fn info(&self, number: u64) -> Result<ExecInfo, Fault> {
        Ok(self.known(number)?.info(self.session, &self.working_dir))
    }

    pub(crate) fn outcome(&self, number: u64) -> Result<Outcome, Fault> {
        Ok(self.known(number)?.outcome(&self.working_dir))
    }

    /// Bytes written to the stream, and how many of them are no longer kept.
    pub(crate) fn sizes(&self, number: u64, stream: Stream) -> Result<(u64, u64), Fault> {
        let exec = self.known(number)?;
        Ok((exec.journal.total(stream), exec.journal.dropped(stream)))
    }

    /// The kept bytes at `offset` or after it, at most `limit`.
    pub(crate) fn range(&self, number: u64, stream: Stream, offset: u64, limit: u64) -> Result<Range, Fault> {
        let exec = self.known(number)?;
        let mut bytes = vec![0; limit.min(exec.journal.total(stream).saturating_sub(offset)) as usize];
        let (offset, read) = self.journal.read(&exec.journal, stream, offset, &mut bytes);
        bytes.truncate(read);
        Ok(Range { stream, offset, bytes })
    }
}
