//! `events.subscribe`: every change from a number on, in order, until somebody leaves.

use std::sync::Arc;

use trl_protocol::change::{ChangeEvent, SubscribeParams, SubscriptionOver};
use trl_protocol::{Event, Fault, SessionId};

use crate::caller::{Caller, EventSink, Gone};
use crate::feed::Lookup;
use crate::remote;
use crate::runtime::Inner;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: SubscribeParams,
    caller: &Caller,
    events: &mut dyn EventSink,
) -> Result<SubscriptionOver, Fault> {
    let feed = &runtime.feed;
    // A number that was never given comes from before the machine's clock was set back.
    let mut seq = params.from.map_or(feed.next(), |from| from.min(feed.next()));
    let wanted = |change: &ChangeEvent| {
        let is_listed = params.topics.as_ref().is_none_or(|topics| topics.contains(&change.topic));
        is_listed && !(params.own && change.runtime.is_some())
    };
    // Under a grant, only what happens to its own sessions.
    let visible = |session: Option<SessionId>| match &caller.grant {
        Some(grant) => session.is_some_and(|id| runtime.grants.owns(grant, id)),
        None => true,
    };
    let mut grants = runtime.grants.watch();
    runtime.watch_all();
    let is_for_all = !params.own && caller.grant.is_none();
    let _follower = is_for_all.then(|| remote::follow_all(runtime));
    let mut told = 0;
    let mut sent = events.send(Event::Subscribed { next: seq }).await;
    loop {
        if let Err(Gone) = sent {
            return Err(Fault::internal("the client is gone"));
        }
        sent = match feed.look(seq) {
            Lookup::Change(change) => {
                seq += 1;
                if !wanted(&change) || !visible(change.session_id) {
                    continue;
                }
                told += 1;
                events.send(Event::Change(&change)).await
            }
            Lookup::Missed { to } => {
                let missed = Event::Missed { from: seq, to };
                seq = to;
                events.send(missed).await
            }
            Lookup::Nothing => {
                tokio::select! {
                    () = feed.reaches(seq) => Ok(()),
                    () = caller.gone() => Err(Gone),
                    Ok(()) = grants.changed(), if caller.grant.is_some() => {
                        caller.grant.as_ref().map_or(Ok(()), |grant| runtime.grants.active(grant).map(drop))?;
                        Ok(())
                    }
                    () = runtime.stopping() => return Ok(SubscriptionOver { events: told, next: feed.next() }),
                }
            }
        };
    }
}
