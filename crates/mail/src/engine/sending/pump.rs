//! The way out: seal what is stored, publish what is sealed, note what the relay took.
//!
//! One loop, so packets of a pair leave in the order they were sealed. Notes and
//! receipts wait a few milliseconds for company: neither is urgent, and each would
//! cost an fsync of its own beside the mail that is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use trl_protocol::mail::FailReason;

use crate::engine::repeated_error::RepeatedError;
use crate::engine::sending::outbox::{DuePacket, Mark};
use crate::engine::sending::sealing::Pair;
use crate::engine::{Engine, Wake};
use crate::error::MailError;
use crate::relay::{Outgoing, RelayError};
use crate::steps::Step;

const BATCH: i64 = 128;
const MARK_AFTER: Duration = Duration::from_millis(5);
const RECEIPTS_AFTER: Duration = Duration::from_millis(20);
const RECEIPTS_AT_LAST: Duration = Duration::from_millis(100);
const RETRY_AFTER: Duration = Duration::from_millis(500);
const MARKS_AT_MOST: usize = 256;

/// What the loop remembers between passes.
#[derive(Debug, Default)]
struct Outflow {
    /// Newest row that the relay has, though the store does not say so yet.
    published: i64,
    /// The store has nothing to publish that does not also come through the publish_queue.
    caught_up: bool,
    marks: Vec<Mark>,
}

pub(crate) async fn run(engine: Arc<Engine>) {
    let board = &engine.env.wakeups;
    let (work, receipts) = (board.listen(Wake::Pump), board.listen(Wake::Receipts));
    let sealed = board.listen(Wake::PublishQueue);
    let mut only_sealed = false;
    let mut outflow = Outflow::default();
    let mut receipts_at = Some(Instant::now());
    let mut told_at = Instant::now();
    let mut mark_at = None;
    let mut last_error = RepeatedError::default();
    loop {
        // Also when there is always more to publish: unheard senders would publish again.
        let with_receipts =
            receipts_at.is_some_and(|at| at <= Instant::now()) || told_at.elapsed() >= RECEIPTS_AT_LAST;
        if with_receipts {
            receipts_at = None;
            told_at = Instant::now();
        }
        let passed = match only_sealed && !with_receipts {
            true => outflow.publish_sealed(&engine).await,
            false => outflow.pass(&engine, with_receipts).await,
        };
        only_sealed = false;
        match passed {
            Ok(more) => {
                last_error.clear();
                if more {
                    continue;
                }
            }
            Err(MailError::Closed | MailError::Relay(RelayError::Closed)) => return,
            Err(MailError::Relay(RelayError::Renewed)) => outflow.begin_again(&engine).await,
            Err(error) => {
                if last_error.is_new(&error) {
                    tracing::warn!(%error, "sending mail failed; it is tried again");
                }
                outflow.start_over();
                receipts_at = Some(Instant::now());
                sleep(RETRY_AFTER).await;
                continue;
            }
        }
        mark_at = if outflow.marks.is_empty() { None } else { mark_at.or(Some(Instant::now() + MARK_AFTER)) };
        tokio::select! {
            biased;
            () = work.notify.notified() => {}
            () = sealed.notify.notified() => only_sealed = true,
            () = receipts.notify.notified() => {
                receipts_at = receipts_at.or(Some(Instant::now() + RECEIPTS_AFTER));
            }
            () = at(receipts_at) => {}
            () = at(mark_at) => outflow.note(&engine).await,
            () = renewed(&engine) => outflow.begin_again(&engine).await,
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn renewed(engine: &Engine) {
    // What is wrong with the relay is said when there is something to publish.
    if engine.relay.renewed().await.is_err() {
        std::future::pending().await
    }
}

impl Outflow {
    /// What is published is no longer sure; the store knows what has not been noted.
    fn start_over(&mut self) {
        self.published = 0;
        self.caught_up = false;
    }

    /// The short way of mail that was sealed when it was sent; never `true`, as it leaves nothing.
    async fn publish_sealed(&mut self, engine: &Engine) -> Result<bool, MailError> {
        let sealed = if self.caught_up { engine.env.publish_queue.take() } else { None };
        let Some(sealed) = sealed else { return self.pass(engine, false).await };
        let due = sealed.into_iter().filter(|due| due.row > self.published).collect();
        self.publish(engine, due).await?;
        if self.marks.len() > MARKS_AT_MOST {
            self.note(engine).await;
        }
        Ok(false)
    }

    /// Seals and publishes once; `true` if there may be more.
    async fn pass(&mut self, engine: &Engine, with_receipts: bool) -> Result<bool, MailError> {
        let after = self.published;
        // A pass with receipts writes anyway, so what is to be noted goes with it.
        let marks = if with_receipts { std::mem::take(&mut self.marks) } else { Vec::new() };
        let (lacking, due, overdue) = engine
            .tx(move |tx| {
                if !marks.is_empty() {
                    tx.mark_published(&marks)?;
                }
                let mut lacking = Vec::new();
                for pair in tx.pairs_to_seal(with_receipts)? {
                    if !tx.seal_pair(&pair)? {
                        lacking.push(pair);
                    }
                }
                // This very pass publishes what it sealed; no wakeup is needed for it.
                tx.wakes.retain(|wake| !matches!(wake, Wake::Pump | Wake::PublishQueue));
                Ok((lacking, tx.unpublished(after, BATCH)?, tx.overdue(BATCH)?))
            })
            .await?;
        let more = !due.is_empty() || !lacking.is_empty();
        let all = (due.len() as i64) < BATCH;
        self.publish(engine, due).await?;
        self.caught_up = all;
        if !overdue.is_empty() {
            self.publish(engine, overdue).await?;
            self.note(engine).await;
        }
        for pair in lacking {
            start_session(engine, pair).await?;
        }
        if self.marks.len() > MARKS_AT_MOST {
            self.note(engine).await;
        }
        Ok(more)
    }

    async fn publish(&mut self, engine: &Engine, due: Vec<DuePacket>) -> Result<(), MailError> {
        if due.is_empty() {
            return Ok(());
        }
        engine.env.config.steps.reach(Step::PublishBefore)?;
        let packets: Vec<Outgoing> = due.iter().map(|due| due.packet.clone()).collect();
        let outcomes = engine.relay.publish(packets).await?;
        let at = engine.env.clock.now_ms();
        for (due, outcome) in due.iter().zip(outcomes) {
            self.marks.push(Mark { row: due.row, outbox_id: due.outbox_id, outcome, at });
            self.published = self.published.max(due.row);
        }
        engine.env.config.steps.reach(Step::PublishAfter)
    }

    /// The relay may have lost its newest packets: what has no receipt goes out again, in order,
    /// before anything newer.
    async fn begin_again(&mut self, engine: &Engine) {
        self.note(engine).await;
        self.start_over();
        match engine.tx(|tx| tx.publish_again()).await {
            Ok(count) => {
                tracing::info!(count, "the relay was restarted; messages without a receipt are sent again")
            }
            Err(error) => tracing::warn!(%error, "what has no receipt is sent again later"),
        }
    }

    async fn note(&mut self, engine: &Engine) {
        let marks = std::mem::take(&mut self.marks);
        let noted = engine.tx(move |tx| tx.mark_published(&marks)).await;
        if let Err(error) = noted {
            // They stay unpublished in the store, go out again and are known at the other end.
            tracing::warn!(%error, "what the relay took could not be noted");
            self.start_over();
        }
    }
}

/// Keys for a peer we have no ratchet with; an address that does not exist fails its mail.
async fn start_session(engine: &Engine, pair: Pair) -> Result<(), MailError> {
    let peer = crate::engine::identity::contacts::parsed(&pair.peer)?;
    let claim = engine.relay.claim(&peer).await?;
    engine.env.config.steps.reach(Step::KeyClaimed)?;
    let unusable = match claim {
        Some(claim) => {
            let target = pair.clone();
            match engine.tx(move |tx| tx.seal_with_claim(&target, &claim)).await {
                Err(MailError::Seal(error)) => {
                    tracing::warn!(%error, "the directory's keys for a peer are not its own");
                    true
                }
                other => return other,
            }
        }
        None => true,
    };
    if unusable {
        engine.tx(move |tx| tx.fail_pair(&pair, FailReason::UnknownRecipient)).await?;
    }
    Ok(())
}
