//! The relay as one agent finds it: what must be refused is tried, and what must be there is compared.

use std::time::Duration;

use async_nats::jetstream::stream::Config;
use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};

use trl_mail::relay::broker::BrokerConfig;

use super::access::User;
use super::attacks;
use super::connection::{Connection, ConnectionEvents, NoAnswer};
use super::layout::{self, Quota};
use super::names;
use super::setup::Info;
use trl_mail::identity::{Address, Identity};

/// How long a broker's word may take.
pub(crate) const REFUSED_WITHIN: Duration = Duration::from_secs(3);

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub what: String,
    pub ok: bool,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

const CONFIG: &str = "include the config that `trl relay init` writes in the broker's, and reload the broker";

pub(crate) fn fine(what: &str, found: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), ok: true, found: found.into(), remedy: None }
}

pub(crate) fn wrong(what: &str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { what: what.to_owned(), ok: false, found: found.into(), remedy: Some(remedy.into()) }
}

/// Tries everything; stops early only where nothing more could be learned.
pub async fn check(config: &BrokerConfig, who: &Address) -> Vec<Finding> {
    let mut findings = vec![anonymous(config).await];
    let what = "the credential's file is private";
    let user = match config.credentials.file_for(who).map(|path| (User::read(&path), path)) {
        Some((Ok(user), path)) => {
            findings.push(fine(what, path.display().to_string()));
            user
        }
        Some((Err(bad), _)) => {
            findings.push(wrong(what, bad.to_string(), "have it be this user's own file of mode 0600"));
            return findings;
        }
        None => {
            findings.push(wrong(
                what,
                "no credential is set",
                "set TRL_RELAY_CREDENTIALS to the agent's key file",
            ));
            User::anonymous()
        }
    };
    let what = "the broker knows this agent";
    let connection = match Connection::dial(config, &user).await {
        Ok(connection) => connection,
        Err(error) => {
            findings.push(wrong(what, error.to_string(), CONFIG));
            return findings;
        }
    };
    findings.push(fine(what, format!("as {}", user.public_key)));
    findings.push(encrypted(config, &connection));
    findings.push(payload(&connection));
    let mailbox = layout::mailbox(who.as_str(), Quota::default(), 1);
    for wanted in [layout::directory(1), layout::used_keys(1), layout::presence(1), mailbox] {
        findings.push(stream(&connection, &wanted).await);
    }
    findings.push(own_mailbox(&connection, who).await);
    findings.extend(forbidden(&connection, who).await);
    findings.extend(attacks::tried(&connection, who).await);
    findings
}

async fn anonymous(config: &BrokerConfig) -> Finding {
    let what = "a connection without a key is refused";
    match Connection::dial(config, &User::anonymous()).await {
        Err(error) if error.to_string().to_lowercase().contains("authorization") => fine(what, "refused"),
        Err(error) => {
            wrong(what, format!("not known: {error}"), "have the broker reachable, then check again")
        }
        Ok(_) => wrong(
            what,
            "an anonymous client was let in",
            "users only inside a named account, and no `no_auth_user`; `trl relay init` writes such a config",
        ),
    }
}

fn encrypted(config: &BrokerConfig, connection: &Connection) -> Finding {
    let what = "the way to the broker is encrypted";
    let tls = config.servers.contains("tls://")
        || config.tls.ca.is_some()
        || connection.client.server_info().tls_required;
    let local = ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| config.servers.contains(host));
    match (tls, local) {
        (true, _) => fine(what, "TLS"),
        (false, true) => fine(what, "no TLS, on this machine only"),
        (false, false) => wrong(
            what,
            "no TLS: who listens on the way sees who writes to whom, and when",
            "give the broker a certificate and use tls://",
        ),
    }
}

fn payload(connection: &Connection) -> Finding {
    let what = "the broker takes messages of full size";
    let takes = connection.client.max_payload();
    if takes >= super::parcel::MAX_BYTES + 1024 {
        return fine(what, format!("{takes} bytes"));
    }
    wrong(what, format!("only {takes} bytes"), "set `max_payload: 1MB` in the broker's config")
}

async fn stream(connection: &Connection, wanted: &Config) -> Finding {
    let what = format!("the stream {} is as it must be", wanted.name);
    match connection.api::<Info>(&format!("STREAM.INFO.{}", wanted.name), &json!({})).await {
        Ok(info) => match layout::differences(wanted, &info.config).as_slice() {
            [] => fine(&what, "as it must be"),
            differ => {
                wrong(&what, differ.join("; "), "the administrator removes it and runs `trl relay init`")
            }
        },
        Err(NoAnswer::Missing) => wrong(&what, "it is missing", "the administrator runs `trl relay init`"),
        Err(other) => wrong(&what, trl_mail::relay::RelayError::from(other).to_string(), CONFIG),
    }
}

/// Something without content goes the whole way; readers pass over it.
async fn own_mailbox(connection: &Connection, who: &Address) -> Finding {
    let what = "this agent can send, and is notified of mail";
    let bell = connection.client.subscribe(names::bell_subjects(who.as_str())).await;
    let Ok(mut bell) = bell else { return wrong(what, "it cannot listen", CONFIG) };
    let subject = names::mailbox_subject(who.as_str(), who.as_str());
    let sent = match connection.jetstream.publish(subject, bytes::Bytes::new()).await {
        Ok(answer) => answer.await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        return wrong(what, error.to_string(), CONFIG);
    }
    let mailbox = names::mailbox_stream(who.as_str());
    let ask = json!({ "last_by_subj": names::mailbox_subject(who.as_str(), who.as_str()) });
    let read = connection.api::<Value>(&format!("STREAM.MSG.GET.{mailbox}"), &ask).await;
    if let Err(NoAnswer::Failed(error)) = read {
        return wrong(what, error.to_string(), CONFIG);
    }
    match tokio::time::timeout(REFUSED_WITHIN, bell.next()).await {
        Ok(Some(_)) => fine(what, "yes"),
        Ok(None) | Err(_) => wrong(what, "sent, but not notified", "the administrator runs `trl relay init`"),
    }
}

/// Everything here must be refused.
async fn forbidden(connection: &Connection, who: &Address) -> Vec<Finding> {
    // Nobody's address: if the broker does let us, nobody is harmed.
    let other = Identity::generate().address().to_string();
    let who = who.as_str();
    let publish = [
        ("a forged sender is refused", names::mailbox_subject(who, &other)),
        (
            "another's mailbox cannot be read",
            format!("$JS.API.STREAM.MSG.GET.{}", names::mailbox_stream(&other)),
        ),
        (
            "another's mailbox cannot be emptied",
            format!("$JS.API.STREAM.PURGE.{}", names::mailbox_stream(&other)),
        ),
        ("another's keys cannot be replaced", names::directory_subject(&other)),
        ("members cannot redirect mail", format!("$JS.API.CONSUMER.CREATE.{}", names::mailbox_stream(who))),
        ("streams are the administrator's", "$JS.API.STREAM.CREATE.TRL_CHECK".to_owned()),
    ];
    let subscribe = [
        ("another's mail cannot be listened to", names::mailbox_subjects(&other)),
        ("another's bell cannot be listened to", names::bell_subjects(&other)),
        ("answers to others cannot be listened to", "_INBOX.>".to_owned()),
        ("the whole traffic cannot be listened to", ">".to_owned()),
    ];
    let mut listening = Vec::new();
    let mut tried = true;
    for (_, subject) in &publish {
        tried &= connection.client.publish(subject.clone(), bytes::Bytes::new()).await.is_ok();
    }
    for (_, subject) in &subscribe {
        listening.push(connection.client.subscribe(subject.clone()).await);
    }
    // A refusal comes before the answer to the flush, or not at all.
    let answered = tried && connection.client.flush().await.is_ok();
    let all: Vec<(&str, String)> = publish.into_iter().chain(subscribe).collect();
    let everything = |events: &ConnectionEvents| all.iter().all(|(_, subject)| names_it(events, subject));
    drop(tokio::time::timeout(REFUSED_WITHIN, connection.events.clone().wait_for(everything)).await);
    let events = connection.events.borrow();
    all.iter()
        .map(|(what, subject)| match (names_it(&events, subject), answered) {
            (true, _) => fine(what, "refused"),
            (false, true) => wrong(what, format!("{subject} is allowed"), CONFIG),
            (false, false) => wrong(what, "the broker went away", "check again"),
        })
        .collect()
}

fn names_it(events: &ConnectionEvents, subject: &str) -> bool {
    events.refused.iter().any(|why| why.contains(&format!("\"{subject}\"")))
}
