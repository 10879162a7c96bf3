//! `exec.bind`: the command is cancelled when the connection that asks is over.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::{BindParams, Bound};

use crate::caller::Caller;
use crate::connection_bound::BoundItem;
use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Arc<Inner>, params: &BindParams, caller: &Caller) -> Result<Bound, Fault> {
    let (session, number) = runtime.registry.of_exec(&params.exec_id)?;
    let exec_id = session.exec_id(number);
    runtime.bind(BoundItem::Exec(exec_id), params.bound, caller)?;
    Ok(Bound { exec_id, bound: params.bound })
}
