//! What every relay must hold, as functions that a test of any implementation calls.
//!
//! Each returns what was wrong instead of panicking, so it can live in the library.

use std::collections::HashSet;

use super::{Outgoing, Published, Refusal, Relay, RelayError};
use crate::identity::{Address, Identity};
use crate::seal::{Bundle, Device, SignedKey};

#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error("{0}")]
    Wrong(String),
}

fn ensure(held: bool, what: impl FnOnce() -> String) -> Result<(), Unfit> {
    if held { Ok(()) } else { Err(Unfit::Wrong(what())) }
}

fn announced(keys: usize) -> Result<(Address, Bundle, Vec<SignedKey>), Unfit> {
    let identity = Identity::generate();
    let mut device = Device::generate();
    let keys = device.one_time_keys(&identity, 1, keys);
    let fallback =
        device.fallback_key(&identity, 1).ok_or_else(|| Unfit::Wrong("no fallback key".to_owned()))?;
    Ok((identity.address().clone(), Bundle { card: device.card(&identity, 1), fallback }, keys))
}

fn packet(from: &Address, to: &Address, n: u32) -> Outgoing {
    Outgoing { from: from.clone(), to: to.clone(), id: format!("{n:064x}"), bytes: n.to_be_bytes().to_vec() }
}

/// Everything below, in turn.
pub async fn all(relay: &dyn Relay) -> Result<(), Unfit> {
    directory(relay).await?;
    each_key_is_given_once(relay).await?;
    order_and_redelivery(relay).await?;
    publishing_twice_is_once(relay).await?;
    refusals(relay).await?;
    a_waiting_reader_wakes(relay).await
}

pub async fn directory(relay: &dyn Relay) -> Result<(), Unfit> {
    let (who, bundle, keys) = announced(2)?;
    ensure(relay.bundle(&who).await?.is_none(), || "an unknown address has a bundle".to_owned())?;
    ensure(relay.claim(&who).await?.is_none(), || "an unknown address has keys".to_owned())?;
    relay.announce(&who, bundle.clone(), keys).await?;
    ensure(relay.bundle(&who).await? == Some(bundle), || "the bundle came back changed".to_owned())?;
    let count = relay.unclaimed_keys(&who).await?;
    ensure(count == 2, || format!("two keys announced, {count} counted"))
}

pub async fn each_key_is_given_once(relay: &dyn Relay) -> Result<(), Unfit> {
    let (who, bundle, keys) = announced(5)?;
    relay.announce(&who, bundle.clone(), keys.clone()).await?;
    let mut given = HashSet::new();
    for _ in 0..5 {
        let claim = relay.claim(&who).await?.ok_or_else(|| Unfit::Wrong("no claim".to_owned()))?;
        let key = claim.one_time_key.ok_or_else(|| Unfit::Wrong("keys ran out early".to_owned()))?;
        ensure(given.insert(key.id.clone()), || format!("key {} was given twice", key.id))?;
    }
    relay.announce(&who, bundle, keys).await?;
    let claim = relay.claim(&who).await?.ok_or_else(|| Unfit::Wrong("no claim".to_owned()))?;
    ensure(claim.one_time_key.is_none(), || "announcing a used key again revived it".to_owned())
}

pub async fn order_and_redelivery(relay: &dyn Relay) -> Result<(), Unfit> {
    let ((to, bundle, keys), (from, ..)) = (announced(1)?, announced(1)?);
    relay.announce(&to, bundle, keys).await?;
    for chunk in (0..20u32).collect::<Vec<_>>().chunks(7) {
        relay.publish(chunk.iter().map(|n| packet(&from, &to, *n)).collect()).await?;
    }
    let mut reader = relay.mailbox(&to);
    let first = read(reader.as_mut(), 20).await?;
    let numbers: Vec<_> = first.iter().map(|p| p.bytes.clone()).collect();
    let sent: Vec<_> = (0..20u32).map(|n| n.to_be_bytes().to_vec()).collect();
    ensure(numbers == sent, || "packets came out of order".to_owned())?;
    ensure(first.iter().all(|p| p.from == from), || "a packet changed its sender".to_owned())?;
    reader.ack(first.iter().take(12).map(|p| p.token).collect()).await?;
    drop(reader);
    let mut again = relay.mailbox(&to);
    let rest = read(again.as_mut(), 8).await?;
    let expected: Vec<_> = sent[12..].to_vec();
    let numbers: Vec<_> = rest.iter().map(|p| p.bytes.clone()).collect();
    ensure(numbers == expected, || format!("after 12 of 20 acknowledged, {} came again", rest.len()))?;
    again.ack(rest.iter().map(|p| p.token).collect()).await?;
    Ok(())
}

async fn read(reader: &mut dyn super::Mailbox, count: usize) -> Result<Vec<super::Incoming>, Unfit> {
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(reader.next(count - all.len()).await?);
    }
    Ok(all)
}

pub async fn publishing_twice_is_once(relay: &dyn Relay) -> Result<(), Unfit> {
    let ((to, bundle, keys), (from, ..), (other, ..)) = (announced(1)?, announced(1)?, announced(1)?);
    relay.announce(&to, bundle, keys).await?;
    for _ in 0..3 {
        let outcome = relay.publish(vec![packet(&from, &to, 1)]).await?;
        ensure(outcome == [Published::Stored], || format!("publishing again gave {outcome:?}"))?;
    }
    // The same id from someone else is another packet: nobody can swallow another's mail.
    relay.publish(vec![packet(&other, &to, 1), packet(&from, &to, 2)]).await?;
    let mut reader = relay.mailbox(&to);
    let found = read(reader.as_mut(), 3).await?;
    let senders: Vec<_> = found.iter().map(|p| p.from.clone()).collect();
    ensure(senders == [from.clone(), other, from], || format!("found {} packets", found.len()))?;
    reader.ack(found.iter().map(|p| p.token).collect()).await?;
    Ok(())
}

pub async fn refusals(relay: &dyn Relay) -> Result<(), Unfit> {
    let ((to, bundle, keys), (from, ..), (nobody, ..)) = (announced(1)?, announced(1)?, announced(1)?);
    relay.announce(&to, bundle, keys).await?;
    let mut large = packet(&from, &to, 9);
    large.bytes = vec![0; relay.max_packet_bytes() + 1];
    let outcome = relay.publish(vec![packet(&from, &nobody, 1), large, packet(&from, &to, 3)]).await?;
    let expected = [
        Published::Refused(Refusal::UnknownMailbox),
        Published::Refused(Refusal::TooLarge),
        Published::Stored,
    ];
    ensure(outcome == expected, || format!("refusals were {outcome:?}"))
}

pub async fn a_waiting_reader_wakes(relay: &dyn Relay) -> Result<(), Unfit> {
    let ((to, bundle, keys), (from, ..)) = (announced(1)?, announced(1)?);
    relay.announce(&to, bundle, keys).await?;
    let mut reader = relay.mailbox(&to);
    let publish = async {
        tokio::task::yield_now().await;
        relay.publish(vec![packet(&from, &to, 1)]).await
    };
    let (found, published) = tokio::join!(reader.next(10), publish);
    published?;
    let found = found?;
    ensure(found.len() == 1, || format!("{} packets woke the reader", found.len()))
}
