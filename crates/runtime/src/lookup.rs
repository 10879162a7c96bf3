//! What an id or a name in a request stands for.
//!
//! A session that is being created is waited for. One of an earlier daemon elsewhere is waited for until it
//! is known what became of its host, or that it is out of reach.

use std::sync::Arc;

use trl_protocol::Fault;

use crate::backend::LostSession;
use crate::link::End;
use crate::registry::Found;
use crate::runtime::Inner;
use crate::session::Session;

/// Where a command's output and result are.
#[derive(Debug)]
pub(crate) enum ExecSource {
    Host(Arc<Session>, u64),
    Disk(Box<LostSession>, u64),
}

impl Inner {
    /// Who can tell about a command: its session's host or, if that is gone, what it left.
    pub(crate) async fn exec(&self, exec_id: &str) -> Result<ExecSource, Fault> {
        match self.find_exec(exec_id).await? {
            (Found::Living(session), number) => Ok(ExecSource::Host(session, number)),
            (Found::Past { end: End::Lost | End::Damaged { .. }, info, backend }, number) => {
                Ok(ExecSource::Disk(Box::new(backend.lost_session(*info).await?), number))
            }
            (other, _) => Err(other.refusal()),
        }
    }

    /// What an id or a name stands for. A session of an earlier daemon elsewhere is waited for until it is known
    /// what became of it, or that it is out of reach.
    pub(crate) async fn find(&self, named: &str) -> Result<Found, Fault> {
        if let Found::Living(session) = self.registry.find(named)? {
            session.contact().await;
        }
        self.registry.find(named)
    }

    /// The same for the session of a command.
    pub(crate) async fn find_exec(&self, exec_id: &str) -> Result<(Found, u64), Fault> {
        if let (Found::Living(session), _) = self.registry.find_exec(exec_id)? {
            session.contact().await;
        }
        self.registry.find_exec(exec_id)
    }

    /// The living session of a command, and the command's number there.
    pub(crate) async fn of_exec(&self, exec_id: &str) -> Result<(Arc<Session>, u64), Fault> {
        match self.find_exec(exec_id).await? {
            (Found::Living(session), number) => Ok((session, number)),
            (other, _) => Err(other.refusal()),
        }
    }

    /// The living session of this id or name. One that is being created is waited for.
    pub(crate) async fn living(&self, named: &str) -> Result<Arc<Session>, Fault> {
        let mut settled = self.settled.subscribe();
        loop {
            match self.find(named).await? {
                Found::Creating(..) if settled.changed().await.is_ok() => {}
                Found::Living(session) => return Ok(session),
                other => return Err(other.refusal()),
            }
        }
    }

    /// What this id or name stands for. A session of which nothing is known yet, since its creation has only
    /// begun, is waited for.
    pub(crate) async fn described(&self, named: &str) -> Result<Found, Fault> {
        let mut settled = self.settled.subscribe();
        loop {
            match self.find(named).await? {
                Found::Creating(_, None) if settled.changed().await.is_ok() => {}
                found => return Ok(found),
            }
        }
    }
}
