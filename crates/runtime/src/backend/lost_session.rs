//! What a session without a host left on disk: what it stored about itself, and its output.
//!
//! Backends open the directory, or a copy of it, and hand out these types. Nothing in the
//! files is trusted: what cannot be read is reported as [`Damage`], never hidden.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use trl_journal::{Journal, KeptExec, Moment, SessionFile, Since, recover};
use trl_protocol::exec::{ExecInfo, Outcome, Stream};
use trl_protocol::session::SessionInfo;
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Code, ExecId, Fault, SessionId};

use crate::blocking::run_blocking;
use crate::output::Range;

/// What a session stored about itself.
#[derive(Debug)]
pub struct SavedSession {
    pub info: SessionInfo,
    /// What a new host needs to continue the session.
    pub spec: SessionSpec,
}

/// Why what a session stored about itself is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub String);

impl SavedSession {
    /// Reads it from a session's directory; `None` if the session stored nothing.
    pub async fn read(dir: PathBuf, id: SessionId) -> Option<Result<SavedSession, Damage>> {
        let copy = dir.clone();
        let counted = run_blocking(move || SavedSession::read_blocking(&copy, id, true)).await;
        // Without a thread to read the journal, the count of commands may be behind.
        counted.unwrap_or_else(|_| SavedSession::read_blocking(&dir, id, false))
    }

    /// With `count`, commands that ran after the file was written are added.
    fn read_blocking(dir: &Path, id: SessionId, count: bool) -> Option<Result<SavedSession, Damage>> {
        let file: SessionFile = match SessionFile::read(dir) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(Err(Damage(format!("session.json cannot be read: {error}")))),
        };
        let stored = file.info.session_id;
        if stored != id || file.spec.session_id != id {
            return Some(Err(Damage(format!("session.json is that of session {stored}"))));
        }
        let later = if count { commands_since(dir) } else { 0 };
        let info = SessionInfo { command_count: file.info.command_count + later, ..file.info };
        Some(Ok(SavedSession { info, spec: SessionSpec { resume: true, ..file.spec } }))
    }

    /// When the session last wrote to this directory about itself.
    pub(crate) fn last_written(dir: &Path) -> Option<Moment> {
        let file: SessionFile = SessionFile::read(dir).ok()?;
        file.written
    }
}

/// Commands that ran after the session's description was stored.
fn commands_since(dir: &Path) -> u64 {
    // The state of a shell of another version may be unknown; then nothing is added.
    let Ok(file) = SessionFile::<Since>::read(dir) else { return 0 };
    recover::read(dir).map_or(0, |(_, kept)| file.state.commands(&kept))
}

/// The output and the outcomes of a lost session's commands.
#[derive(Debug)]
pub struct LostSession {
    pub(crate) session: SessionId,
    working_dir: String,
    journal: Journal,
    execs: BTreeMap<u64, KeptExec>,
}

impl LostSession {
    /// Reads the journal in a session's directory.
    pub async fn open(info: SessionInfo, dir: PathBuf) -> Result<LostSession, Fault> {
        let session = info.session_id;
        let read = run_blocking(move || recover::read(&dir)).await.map_err(|error| {
            Fault::refused_by_system("what a lost session left cannot be read now", &error)
        })?;
        let (journal, execs) = read.map_err(|error| {
            let message = format!("session {session} is lost, and its output cannot be read: {error}");
            Fault::new(Code::ExecNotFound, message)
        })?;
        Ok(LostSession { session, working_dir: info.working_dir, journal, execs })
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
