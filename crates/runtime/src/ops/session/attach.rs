//! `session.attach`: the session as people see it, live, until they are released.

use std::sync::Arc;

use trl_protocol::exec::Stream;
use trl_protocol::session::{AttachParams, Detached};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Event, Fault};

use crate::caller::{Caller, EventSink, Gone};
use crate::link::Item;
use crate::ops::exec::resize::check_side;
use crate::ops::exec::run::nobody_waits;
use crate::output::Range;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: &AttachParams,
    caller: &Caller,
    events: &mut dyn EventSink,
) -> Result<Detached, Fault> {
    let size = params.rows.zip(params.cols);
    if let Some((rows, cols)) = size {
        check_side("rows", rows)?;
        check_side("cols", cols)?;
    }
    let session = runtime.living(&params.session_id).await?;
    let (writer, take_over) = (!params.read_only, params.take_over);
    let mut flow = session.link.flow(|req| ToHost::View { req, writer, take_over, size }).await?;
    loop {
        let item = tokio::select! {
            item = flow.next() => item?,
            () = caller.gone() => return Err(nobody_waits()),
        };
        match item {
            Item::Output(Range { offset, bytes, .. }) => {
                let shown = Event::Bytes { stream: Stream::Stdout, offset, bytes: &bytes };
                events.send(shown).await.map_err(|Gone| nobody_waits())?;
                flow.accepted(bytes);
            }
            Item::Message(FromHost::Released { reason, .. }) => {
                return Ok(Detached { session_id: session.id, reason });
            }
            Item::Message(FromHost::Fault { fault, .. }) => return Err(fault),
            Item::Message(other) => return Err(unexpected(session.id, &other)),
        }
    }
}
