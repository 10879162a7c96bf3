//! Publishing: the packets for each mailbox in order, one parcel at a time, mailboxes side by side.
//!
//! The next parcel goes out only when the broker has the one before: on a
//! connection that breaks and is made again, nothing can overtake.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::PublishErrorKind;
use bytes::Bytes;
use futures_util::future::join_all;
use sha2::{Digest, Sha256};

use super::connection::Connection;
use super::connections::Connections;
use super::names::hex;
use super::{directory, names, parcel};
use trl_mail::identity::Address;
use trl_mail::relay::{Outgoing, Published, Refusal, RelayError};

/// How long to wait for a broker that is away before saying so.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// The packets for one mailbox, by their places in what was asked for.
type Pile = (Address, Vec<usize>);

pub(crate) async fn publish(
    connections: &Connections,
    packets: Vec<Outgoing>,
) -> Result<Vec<Published>, RelayError> {
    let mut outcomes = vec![Published::Refused(Refusal::TooLarge); packets.len()];
    let sent = join_all(piles(&packets).into_iter().map(|pile| send_pile(connections, &packets, pile))).await;
    for pile in sent {
        for (place, outcome) in pile? {
            outcomes[place] = outcome;
        }
    }
    Ok(outcomes)
}

/// What fits at all, by mailbox, in order.
fn piles(packets: &[Outgoing]) -> Vec<Pile> {
    let mut places: HashMap<Address, Vec<usize>> = HashMap::new();
    for (place, packet) in packets.iter().enumerate().filter(|(_, p)| p.bytes.len() <= parcel::MAX_PACKET) {
        places.entry(packet.to.clone()).or_default().push(place);
    }
    places.into_iter().collect()
}

async fn send_pile(
    connections: &Connections,
    packets: &[Outgoing],
    (to, places): Pile,
) -> Result<Vec<(usize, Published)>, RelayError> {
    let mut sent = Vec::with_capacity(places.len());
    let mut left = places.as_slice();
    while let Some(first) = left.first() {
        let from = &packets[*first].from;
        let of_one = left.iter().map(|place| &packets[*place]).take_while(|packet| packet.from == *from);
        let parcel: Vec<&Outgoing> = of_one.collect();
        let count = parcel::fill(parcel.iter().map(|packet| packet.bytes.len()));
        let connection = connections.of(from).await?;
        connection.ready(PATIENCE).await?;
        let outcome = send_parcel(&connection, from, &to, &parcel[..count]).await?;
        let (now, later) = left.split_at(count);
        sent.extend(now.iter().map(|place| (*place, outcome)));
        left = later;
    }
    Ok(sent)
}

async fn send_parcel(
    connection: &Connection,
    from: &Address,
    to: &Address,
    packets: &[&Outgoing],
) -> Result<Published, RelayError> {
    let subject = names::mailbox_subject(to.as_str(), from.as_str());
    let mut id = Sha256::new();
    id.update(from.as_str());
    for packet in packets {
        id.update(&packet.id);
    }
    let mut headers = HeaderMap::new();
    headers.insert(async_nats::header::NATS_MESSAGE_ID, hex(&id.finalize()));
    let payload = Bytes::from(parcel::pack(packets.iter().map(|packet| packet.bytes.as_slice())));
    let asked = connection.jetstream.publish_with_headers(subject.clone(), headers, payload).await;
    let error = match asked {
        Ok(answer) => match answer.await {
            Ok(_) => return Ok(Published::Stored),
            Err(error) => error,
        },
        Err(error) => error,
    };
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => Ok(Published::Refused(Refusal::TooLarge)),
        // Nobody takes this subject: no such mailbox, or a broker that is not all there yet.
        PublishErrorKind::StreamNotFound => match directory::entry(connection, to).await? {
            None => Ok(Published::Refused(Refusal::UnknownMailbox)),
            Some(_) => Err(RelayError::Unreachable(format!("the mailbox {to} is away"))),
        },
        PublishErrorKind::TimedOut => {
            if let Some(refused) = connection.refusal_of(&subject) {
                return Err(RelayError::Misconfigured(refused));
            }
            // Through an import the broker does not say that nobody takes a subject: it stays silent.
            match directory::entry(connection, to).await? {
                None => Ok(Published::Refused(Refusal::UnknownMailbox)),
                Some(_) => Err(RelayError::Unreachable("the broker did not confirm in time".to_owned())),
            }
        }
        _ => refused(&error),
    }
}

/// An answer of the stream itself: a full mailbox is the recipient's state, all else the broker's.
fn refused(error: &async_nats::jetstream::context::PublishError) -> Result<Published, RelayError> {
    use std::error::Error as _;
    let cause = error.source().and_then(|cause| cause.downcast_ref::<async_nats::jetstream::Error>());
    let full = cause.is_some_and(|cause| {
        cause.error_code() == ErrorCode::STREAM_STORE_FAILED && cause.to_string().contains("maximum")
    });
    if full {
        return Ok(Published::Refused(Refusal::MailboxFull));
    }
    let why = cause.map_or_else(|| error.to_string(), ToString::to_string);
    Err(RelayError::Unreachable(why))
}
