//! `events.subscribe`: every change from a number on, in order, until somebody leaves.

use std::sync::Arc;

use trl_protocol::change::{SubscribeParams, SubscriptionOver};
use trl_protocol::{Event, Fault};

use crate::caller::{Caller, EventSink, Gone};
use crate::feed::Lookup;
use crate::runtime::Inner;

pub(crate) async fn perform<S: EventSink>(
    runtime: &Arc<Inner>,
    params: SubscribeParams,
    caller: &Caller,
    events: &mut S,
) -> Result<SubscriptionOver, Fault> {
    let feed = &runtime.feed;
    // A number that was never given comes from before the machine's clock was set back.
    let mut seq = params.from.map_or(feed.next(), |from| from.min(feed.next()));
    let wanted = |topic| params.topics.as_ref().is_none_or(|topics| topics.contains(&topic));
    runtime.watch_all();
    let mut told = 0;
    let mut sent = events.send(Event::Subscribed { next: seq }).await;
    loop {
        if let Err(Gone) = sent {
            return Err(Fault::internal("the client is gone"));
        }
        sent = match feed.look(seq) {
            Lookup::Change(change) => {
                seq += 1;
                if !wanted(change.topic) {
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
                    () = runtime.stopping() => return Ok(SubscriptionOver { events: told, next: feed.next() }),
                }
            }
        };
    }
}
