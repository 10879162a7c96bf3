//! `exec.info`: one command, queued, running or finished.

use std::sync::Arc;

use trl_protocol::exec::{ExecInfo, ExecParams};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Code, Fault};

use crate::lookup::ExecSource;
use crate::runtime::Inner;
use crate::session::{Session, unexpected};

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &ExecParams) -> Result<ExecInfo, Fault> {
    match runtime.exec(&params.exec_id).await? {
        ExecSource::Host(session, exec) => of(&session, exec, &params.exec_id).await,
        ExecSource::Disk(lost, exec) => lost.info(exec),
    }
}

pub(super) async fn of(session: &Session, exec: u64, id: &str) -> Result<ExecInfo, Fault> {
    let answer = session.link.call(|req| ToHost::Info { req, exec }).await?;
    let FromHost::Execs { execs, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    execs.into_iter().next().ok_or_else(|| {
        Fault::new(Code::ExecNotFound, format!("session {} keeps no command {id}", session.id))
            .with_details(serde_json::json!({ "exec_id": id }))
    })
}
