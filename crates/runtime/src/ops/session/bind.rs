//! `session.bind`: the session ends with the connection that asks.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::session::{BindParams, Bound};

use crate::caller::Caller;
use crate::connection_bound::BoundItem;
use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Arc<Inner>, params: &BindParams, caller: &Caller) -> Result<Bound, Fault> {
    let session_id = runtime.registry.living(&params.session_id)?.id;
    runtime.bind(BoundItem::Session(session_id), params.bound, caller)?;
    Ok(Bound { session_id, bound: params.bound })
}
