//! Reading a mailbox: from its oldest parcel on, and then as the broker's bell brings them.
//!
//! The broker rings after it has stored a parcel, with the parcel and its number: whoever
//! has read everything before takes it as it comes, and fetches what is missing otherwise.
//! There is no consumer on the broker, hence no position that could be wrong after a
//! crash, no redelivery that reorders, and nothing that a member could have delivered
//! elsewhere. What was taken is purged, many parcels at once, since a purge costs the broker
//! more than a parcel does; what is left is what is still to be read, and a little more. A
//! connection that was made again begins at the oldest parcel, since a broker that lost
//! its newest messages gives their numbers to others.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::{Message, Subscriber};
use futures_util::future::join_all;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::connection::{Connection, ConnectionEvents, NoAnswer};
use super::connections::Connections;
use super::directory::FetchedMessage;
use super::outgoing::PATIENCE;
use super::purge::Purge;
use super::setup::Info;
use super::{names, parcel};
use trl_mail::identity::Address;
use trl_mail::relay::{Incoming, Mailbox, Pending, RelayError};

/// Parcels that are asked for at once when the bell told of several.
const WINDOW: u64 = 32;

/// A parcel of which some packets were acknowledged: it stays, and they are not shown again.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Begun {
    seq: u64,
    digest: Digest,
    acked: usize,
}

/// Tells parcels apart that had the same number, before and after a broker lost its newest ones.
type Digest = [u8; 32];

/// A parcel as it was stored, from the broker's memory or from its bell.
#[derive(Debug)]
struct Arrived {
    seq: u64,
    from: Option<Address>,
    payload: Vec<u8>,
}

/// What readers of one process leave to the next one, by mailbox.
#[derive(Debug, Default)]
pub(crate) struct Bookmarks(Mutex<HashMap<Address, Bookmark>>);

#[derive(Debug, Clone)]
struct Bookmark {
    begun: Option<Begun>,
    /// The newest parcel that was taken and not purged, and on which connection.
    taken: Option<(u64, u64)>,
}

impl Bookmarks {
    fn marks(&self) -> MutexGuard<'_, HashMap<Address, Bookmark>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, who: &Address, left: Bookmark) {
        self.marks().insert(who.clone(), left);
    }

    fn acked_of(&self, who: &Address, seq: u64, digest: &Digest) -> usize {
        let marks = self.marks();
        let begun = marks.get(who).and_then(|left| left.begun.as_ref());
        begun.filter(|begun| begun.seq == seq && begun.digest == *digest).map_or(0, |begun| begun.acked)
    }

    fn taken_on(&self, who: &Address, times_connected: u64) -> Option<u64> {
        let (seq, when) = self.marks().get(who)?.taken?;
        (when == times_connected).then_some(seq)
    }
}

#[derive(Debug)]
pub(crate) struct Reader {
    connections: Arc<Connections>,
    bookmarks: Arc<Bookmarks>,
    who: Address,
    tokens: u64,
    open: Option<Open>,
}

/// A mailbox on one connection.
#[derive(Debug)]
struct Open {
    connection: Connection,
    bells: Subscriber,
    times_connected: u64,
    dropped: u64,
    /// Everything before this was looked at.
    next: u64,
    /// There was nothing more when it was last looked for; from then on the bell tells.
    caught_up: bool,
    /// The newest parcel that the bell told of and did not bring in its turn.
    newest: u64,
    /// What it did bring.
    arrived: Vec<Arrived>,
    ready: VecDeque<Incoming>,
    parcels: VecDeque<HandedOutParcel>,
    unacked: BTreeSet<u64>,
    purge: Purge,
}

/// A parcel that was handed out, whole or in part.
#[derive(Debug)]
struct HandedOutParcel {
    seq: u64,
    digest: Digest,
    skipped: usize,
    tokens: std::ops::Range<u64>,
}

impl Reader {
    pub(crate) fn new(connections: Arc<Connections>, bookmarks: Arc<Bookmarks>, who: Address) -> Reader {
        Reader { connections, bookmarks, who, tokens: 1, open: None }
    }

    async fn open(&self) -> Result<Open, RelayError> {
        let connection = self.connections.of(&self.who).await?;
        connection.ready(PATIENCE).await?;
        let ConnectionEvents { times_connected, dropped, .. } = connection.events.borrow().clone();
        let failed = |error: &dyn std::fmt::Display| RelayError::Unreachable(error.to_string());
        let bells = connection.client.subscribe(names::bell_subjects(self.who.as_str()));
        let bells = bells.await.map_err(|error| failed(&error))?;
        if let Some(seq) = self.bookmarks.taken_on(&self.who, times_connected) {
            purge(&connection, &self.who, seq).await?;
        }
        // The broker listens for us before we look, so nothing falls between.
        connection.client.flush().await.map_err(|error| failed(&error))?;
        let stream = format!("STREAM.INFO.{}", names::mailbox_stream(self.who.as_str()));
        let purge = match connection.api::<Info>(&stream, &json!({})).await {
            Ok(Info { config, .. }) => Purge::within(config.max_messages, config.max_messages_per_subject),
            // It is made when the agent is announced, and our bell is there already.
            Err(NoAnswer::Missing) => Purge::within(1, 1),
            Err(other) => return Err(other.into()),
        };
        Ok(Open {
            purge,
            connection,
            bells,
            times_connected,
            dropped,
            next: 1,
            caught_up: false,
            newest: 0,
            arrived: Vec::new(),
            ready: VecDeque::new(),
            parcels: VecDeque::new(),
            unacked: BTreeSet::new(),
        })
    }

    async fn read(&mut self, limit: usize) -> Result<Vec<Incoming>, RelayError> {
        loop {
            let mut open = match self.open.take() {
                Some(open) if open.is_current() => open,
                Some(_) | None => self.open().await?,
            };
            open.hear_bells();
            if open.ready.is_empty() || (open.ready.len() < limit && !open.is_read()) {
                for arrived in open.look(&self.who).await? {
                    self.take_in(&mut open, arrived);
                }
            }
            let found: Vec<Incoming> = open.ready.drain(..limit.min(open.ready.len())).collect();
            if found.is_empty() && open.is_read() {
                open.wait(&self.who).await?;
            }
            self.open = Some(open);
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    fn take_in(&mut self, open: &mut Open, Arrived { seq, from, payload }: Arrived) {
        let digest: Digest = Sha256::digest(&payload).into();
        let (Some(from), Some(packets)) = (from, parcel::unpack(&payload)) else {
            tracing::debug!(seq, "something that is not a parcel was skipped");
            open.parcels.push_back(HandedOutParcel {
                seq,
                digest,
                skipped: 0,
                tokens: self.tokens..self.tokens,
            });
            return;
        };
        let skipped = self.bookmarks.acked_of(&self.who, seq, &digest).min(packets.len());
        let first = self.tokens;
        for bytes in packets.into_iter().skip(skipped) {
            open.unacked.insert(self.tokens);
            open.ready.push_back(Incoming { token: self.tokens, from: from.clone(), bytes });
            self.tokens += 1;
        }
        let tokens = first..self.tokens;
        open.parcels.push_back(HandedOutParcel { seq, digest, skipped, tokens });
    }
}

impl Open {
    fn is_current(&self) -> bool {
        self.connection.is_up() && self.connection.events.borrow().times_connected == self.times_connected
    }

    fn is_read(&self) -> bool {
        self.caught_up && self.newest < self.next && self.arrived.is_empty()
    }

    fn hear_bells(&mut self) {
        let dropped = self.connection.events.borrow().dropped;
        if dropped != self.dropped {
            // The last bell may be among those: look for what no bell told of.
            self.dropped = dropped;
            self.caught_up = false;
        }
        // What does not fit stays with the connection, which bounds it.
        while self.arrived.len() < WINDOW as usize
            && let Some(Some(bell)) = self.bells.next().now_or_never()
        {
            self.hear(bell);
        }
    }

    fn hear(&mut self, bell: Message) {
        let told = bell.headers.as_ref().and_then(|headers| headers.get(async_nats::header::NATS_SEQUENCE));
        let seq: Option<u64> = told.and_then(|seq| seq.as_str().parse().ok());
        match seq {
            Some(seq) if self.caught_up && self.newest < self.next && seq == self.next => {
                let from =
                    bell.subject.as_str().rsplit('.').next().and_then(|from| Address::parse(from).ok());
                self.arrived.push(Arrived { seq, from, payload: bell.payload.into() });
                self.next = seq + 1;
            }
            Some(seq) => self.newest = self.newest.max(seq),
            None => self.caught_up = false,
        }
    }

    /// Until something was stored, or the connection is another one; meanwhile what was taken is purged.
    async fn wait(&mut self, who: &Address) -> Result<(), RelayError> {
        let mut events = self.connection.events.clone();
        events.mark_unchanged();
        if !self.is_current() {
            return Ok(());
        }
        tokio::select! {
            () = self.purge.due() => return self.purge_taken(who).await,
            bell = self.bells.next() => match bell {
                Some(bell) => self.hear(bell),
                // The connection is over for good, or was closed under us.
                None => self.times_connected = 0,
            },
            changed = events.changed() => {
                if changed.is_err() {
                    self.times_connected = 0;
                }
            }
        }
        Ok(())
    }

    async fn purge_taken(&mut self, who: &Address) -> Result<(), RelayError> {
        // On another connection these numbers may mean other parcels.
        let Some(seq) = self.purge.take().filter(|_| self.is_current()) else { return Ok(()) };
        purge(&self.connection, who, seq).await
    }

    /// The next parcels, oldest first.
    async fn look(&mut self, who: &Address) -> Result<Vec<Arrived>, RelayError> {
        if !self.arrived.is_empty() {
            return Ok(std::mem::take(&mut self.arrived));
        }
        if !self.caught_up {
            let ask = json!({ "seq": self.next, "next_by_subj": names::mailbox_subjects(who.as_str()) });
            let found = get(&self.connection, who, ask).await?;
            match &found {
                Some(arrived) => self.next = arrived.seq + 1,
                None => self.caught_up = true,
            }
            return Ok(found.into_iter().collect());
        }
        let upto = self.newest.min(self.next + WINDOW - 1);
        let asked = (self.next..=upto).map(|seq| get(&self.connection, who, json!({ "seq": seq })));
        let mut found = Vec::new();
        for arrived in join_all(asked).await {
            let Some(arrived) = arrived? else {
                // Told of, but not there: purged by somebody, or not there yet.
                self.caught_up = false;
                break;
            };
            self.next = arrived.seq + 1;
            found.push(arrived);
        }
        Ok(found)
    }
}

async fn purge(connection: &Connection, who: &Address, seq: u64) -> Result<(), RelayError> {
    let subject = format!("$JS.API.STREAM.PURGE.{}", names::mailbox_stream(who.as_str()));
    let body = json!({ "seq": seq + 1 }).to_string();
    let purged = connection.client.publish(subject, body.into()).await;
    purged.map_err(|error| RelayError::Unreachable(error.to_string()))
}

async fn get(
    connection: &Connection,
    who: &Address,
    ask: serde_json::Value,
) -> Result<Option<Arrived>, RelayError> {
    let subject = format!("STREAM.MSG.GET.{}", names::mailbox_stream(who.as_str()));
    match connection.api::<FetchedMessage>(&subject, &ask).await {
        Ok(FetchedMessage { message }) => Ok(Some(Arrived {
            seq: message.seq,
            from: names::sender_of(who, &message.subject),
            payload: message.payload().unwrap_or_default(),
        })),
        Err(NoAnswer::Missing) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

impl Mailbox for Reader {
    fn next(&mut self, limit: usize) -> Pending<'_, Vec<Incoming>> {
        Box::pin(self.read(limit))
    }

    fn ack(&mut self, tokens: Vec<u64>) -> Pending<'_, ()> {
        Box::pin(async move {
            let Some(open) = &mut self.open else { return Ok(()) };
            for token in tokens {
                open.unacked.remove(&token);
            }
            let floor = open.unacked.first().copied().unwrap_or(self.tokens);
            while let Some(parcel) = open.parcels.front().filter(|parcel| parcel.tokens.end <= floor) {
                open.purge.add(parcel.seq);
                open.parcels.pop_front();
            }
            let begun = open.parcels.front().map(|parcel| Begun {
                seq: parcel.seq,
                digest: parcel.digest,
                acked: parcel.skipped
                    + usize::try_from(floor.saturating_sub(parcel.tokens.start)).unwrap_or(0),
            });
            let taken = open.purge.newest().map(|seq| (seq, open.times_connected));
            self.bookmarks.set(&self.who, Bookmark { begun, taken });
            if open.purge.is_due() { open.purge_taken(&self.who).await } else { Ok(()) }
        })
    }
}
