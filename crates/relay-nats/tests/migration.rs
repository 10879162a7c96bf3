//! From a broker with all members in one account to one with an account each: no mail is lost.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use crate::support::{Layout, Site};
use trl_mail::relay::{Outgoing, Presence, Published, Relay as _};
use trl_relay_nats::{NatsRelay, Quota, check};

async fn check_as_alice(site: &Site) -> Vec<String> {
    let findings = check::check(&site.keys(), &site.members[0]).await;
    findings.into_iter().filter(|finding| !finding.ok).map(|finding| finding.what).collect()
}

#[tokio::test]
async fn waiting_mail_arrives_in_order_after_the_layout_was_changed() {
    let mut site = Site::new(Layout::OneAccountForAll, Quota::default()).await;
    let (alice, bob, carol) = (site.members[0].clone(), site.members[1].clone(), site.members[2].clone());
    let packet = |from: &trl_mail::identity::Address, n: u32| Outgoing {
        from: from.clone(),
        to: alice.clone(),
        id: format!("{n:064x}"),
        bytes: n.to_be_bytes().to_vec(),
    };
    let relay = NatsRelay::open(site.keys(), None).unwrap();
    for n in 0..40_u32 {
        let from = if n % 2 == 0 { &bob } else { &carol };
        assert_eq!(relay.publish(vec![packet(from, n)]).await.unwrap(), [Published::Stored]);
    }
    drop(relay);
    // The former layout is found out, with what to do about it.
    let wrong = check_as_alice(&site).await;
    assert!(wrong.iter().any(|what| what.contains("an account of its own")), "{wrong:?}");
    assert!(wrong.iter().any(|what| what.contains("replace another's keys")), "{wrong:?}");
    assert!(wrong.iter().any(|what| what.contains("another's name")), "{wrong:?}");

    site.broker.stop();
    site.configure(Layout::OneAccountEach, "");
    site.broker.start();
    site.prepare(Quota::default()).await;
    assert_eq!(check_as_alice(&site).await, Vec::<String>::new());

    let relay = NatsRelay::open(site.keys(), None).unwrap();
    assert_eq!(relay.publish(vec![packet(&bob, 40)]).await.unwrap(), [Published::Stored]);
    let mut mailbox = relay.mailbox(&alice);
    let mut numbers = Vec::new();
    while numbers.len() < 41 {
        let found = mailbox.next(100).await.unwrap();
        for packet in &found {
            let n = u32::from_be_bytes(packet.bytes.clone().try_into().unwrap());
            assert_eq!(packet.from, if n % 2 == 0 { bob.clone() } else { carol.clone() });
            numbers.push(n);
        }
        mailbox.ack(found.iter().map(|packet| packet.token).collect()).await.unwrap();
    }
    assert_eq!(numbers, (0..=40).collect::<Vec<_>>());
    // Presence goes through a stream that the former layout did not have.
    let answering = relay.clone();
    let who = bob.clone();
    let task = tokio::spawn(async move {
        let answer: trl_mail::relay::Answering =
            Box::new(|_| Box::pin(std::future::ready(Some(vec!["cli:1".to_owned()]))));
        answering.attend(&who, answer).await
    });
    let mut online = relay.presence(&alice, &bob).await.unwrap();
    while online == Presence::Away {
        online = relay.presence(&alice, &bob).await.unwrap();
    }
    assert_eq!(online, Presence::Online(vec!["cli:1".to_owned()]));
    assert_eq!(relay.presence(&alice, &carol).await.unwrap(), Presence::Away);
    task.abort();
}

#[tokio::test]
async fn a_second_account_with_jetstream_is_found_out() {
    let mut site = Site::new(Layout::OneAccountEach, Quota::default()).await;
    assert_eq!(check_as_alice(&site).await, Vec::<String>::new());
    site.broker.stop();
    site.configure(Layout::OneAccountEach, "OTHER { jetstream: enabled }");
    site.broker.start();
    let wrong = check_as_alice(&site).await;
    assert_eq!(wrong, ["JetStream is enabled for one account only"]);
}
