//! Attacks by reply subject, tried against this agent's own broker in ways that harm nobody.
//!
//! JetStream answers on any reply subject. Where members share its account, an answer can so become a request in
//! another's name: it replaces a directory entry, fills a mailbox, or purges a stream. What is tried here has
//! nobody's address, or this agent's own, in place of a victim's; a purge is tried on a mailbox that does
//! not exist, and whether it would have been carried out is seen from the other two.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use trl_mail::identity::{Address, Identity};

use super::check::{Finding, REFUSED_WITHIN, fine, wrong};
use super::connection::{Connection, NoAnswer};
use super::names;

const LAYOUT: &str = "the administrator runs `trl relay init` and restarts the broker with the config that it \
                      writes; mail that waits is kept";
/// A broker that carries an attack out does so at once.
const CARRIED_OUT_WITHIN: Duration = Duration::from_millis(500);

pub(crate) async fn tried(connection: &Connection, who: &Address) -> Vec<Finding> {
    let entry = replaces_an_entry(connection).await;
    let mailbox = fills_a_mailbox(connection, who).await;
    let purge = purges_a_mailbox(connection, entry == Attack::Works || mailbox == Attack::Works).await;
    let accounts = accounts_with_jetstream(connection).await;
    let own_account = "each member has an account of its own";
    let layout = if [entry, mailbox, purge].contains(&Attack::Works) {
        let found = "the former layout: all members are in the account that has JetStream";
        wrong(own_account, found, LAYOUT)
    } else {
        fine(own_account, "yes")
    };
    vec![
        layout,
        entry.finding("an answer of the broker cannot replace another's keys"),
        mailbox.finding("an answer of the broker cannot fill a mailbox in another's name"),
        purge.finding("an answer of the broker cannot empty another's mailbox or the directory"),
        accounts,
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    Works,
    Fails,
    /// The broker did not say.
    Unknown,
}

impl Attack {
    fn finding(self, what: &str) -> Finding {
        match self {
            Attack::Fails => fine(what, "tried in vain"),
            Attack::Works => wrong(what, "it can: any member can do this to any other", LAYOUT),
            Attack::Unknown => wrong(what, "not known: the broker does not answer", "check again"),
        }
    }
}

/// Sends a request that this agent may make, to be answered where it may not publish.
async fn answer_to(connection: &Connection, reply: String) -> bool {
    let source = format!("$JS.API.STREAM.INFO.{}", names::DIRECTORY);
    let sent = connection.client.publish_with_reply(source, reply, Bytes::from_static(b"{}")).await;
    sent.is_ok() && connection.client.flush().await.is_ok()
}

async fn replaces_an_entry(connection: &Connection) -> Attack {
    let nobody = Identity::generate().address().to_string();
    if !answer_to(connection, names::directory_subject(&nobody)).await {
        return Attack::Unknown;
    }
    let ask = json!({ "last_by_subj": names::directory_subject(&nobody) });
    let call = format!("STREAM.MSG.GET.{}", names::DIRECTORY);
    appears(async || match connection.api::<Value>(&call, &ask).await {
        Ok(_) => Some(true),
        Err(NoAnswer::Missing) => Some(false),
        Err(NoAnswer::Refused { .. } | NoAnswer::Failed(_)) => None,
    })
    .await
}

/// The mailbox is our own, the name nobody's. A reader passes over what this leaves where it works.
async fn fills_a_mailbox(connection: &Connection, who: &Address) -> Attack {
    #[derive(Deserialize)]
    struct Info {
        state: State,
    }
    #[derive(Deserialize)]
    struct State {
        #[serde(default)]
        subjects: Option<std::collections::HashMap<String, u64>>,
    }
    let nobody = Identity::generate().address().to_string();
    let forged = names::mailbox_subject(who.as_str(), &nobody);
    let bell = names::bell_subjects(who.as_str());
    let Ok(mut bells) = connection.client.subscribe(bell).await else { return Attack::Unknown };
    if !answer_to(connection, forged.clone()).await {
        return Attack::Unknown;
    }
    let ask = json!({ "subjects_filter": forged });
    let call = format!("STREAM.INFO.{}", names::mailbox_stream(who.as_str()));
    let stored = appears(async || match connection.api::<Info>(&call, &ask).await {
        Ok(info) => Some(info.state.subjects.is_some_and(|subjects| !subjects.is_empty())),
        Err(_) => None,
    })
    .await;
    // A reader may have taken it away again, but the broker told of it.
    let mut rung = false;
    while let Some(Some(message)) = futures_util::FutureExt::now_or_never(bells.next()) {
        rung |= message.subject.as_str().ends_with(&nobody);
    }
    if rung { Attack::Works } else { stored }
}

async fn purges_a_mailbox(connection: &Connection, answers_are_requests: bool) -> Attack {
    let nobody = Identity::generate().address().to_string();
    let purge = format!("$JS.API.STREAM.PURGE.{}", names::mailbox_stream(&nobody));
    match (answer_to(connection, purge).await, answers_are_requests) {
        (_, true) => Attack::Works,
        (true, false) => Attack::Fails,
        (false, false) => Attack::Unknown,
    }
}

/// Looks until it is there, or long enough.
async fn appears(look: impl AsyncFn() -> Option<bool>) -> Attack {
    let end = tokio::time::Instant::now() + CARRIED_OUT_WITHIN;
    loop {
        match look().await {
            Some(true) => return Attack::Works,
            None => return Attack::Unknown,
            Some(false) if tokio::time::Instant::now() >= end => return Attack::Fails,
            Some(false) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// A repeated `Nats-Request-Info` header makes the server take a request for one of another account, so no
/// other account may have JetStream.
async fn accounts_with_jetstream(connection: &Connection) -> Finding {
    let what = "JetStream is enabled for one account only";
    let asked = connection.client.request(names::SERVER_STATISTICS, Bytes::new());
    let answer = match tokio::time::timeout(REFUSED_WITHIN, asked).await {
        Ok(Ok(message)) => serde_json::from_slice::<Value>(&message.payload).unwrap_or_default(),
        Ok(Err(_)) | Err(_) => Value::Null,
    };
    match answer["statsz"]["jetstream"]["stats"]["accounts"].as_u64() {
        Some(1) => fine(what, "yes"),
        Some(count) => wrong(
            what,
            format!("{count} accounts have it: members can reach the streams of the others"),
            "take `jetstream` out of every account but TRL, or run a broker for mail alone",
        ),
        None => wrong(what, "not known: the broker's config does not let members ask", LAYOUT),
    }
}
