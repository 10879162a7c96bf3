//! Who is there, asked and answered while both are connected; nothing of it is kept.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::names;
use trl_mail::identity::Address;
use trl_mail::relay::{Answering, Presence, RelayError};

/// A daemon that is connected answers within this, or counts as away.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
struct PresenceAnswer {
    /// `None` to whom it is not told.
    sessions: Option<Vec<String>>,
}

fn failed(error: impl std::fmt::Display) -> RelayError {
    RelayError::Unreachable(error.to_string())
}

/// The answer comes on a subject that leads to us only if the one who is asked published it.
pub(crate) async fn ask(
    connection: &Connection,
    from: &Address,
    who: &Address,
) -> Result<Presence, RelayError> {
    let answers = names::live_subject("here", from.as_str(), who.as_str());
    let mut answer = connection.client.subscribe(answers).await.map_err(failed)?;
    let question = names::presence_subject(who.as_str(), from.as_str());
    connection.client.publish(question, Bytes::new()).await.map_err(failed)?;
    // The broker does not tell whether anybody listens, so silence is the only sign of absence.
    let Ok(told) = tokio::time::timeout(ANSWERED_WITHIN, answer.next()).await else {
        return Ok(Presence::Away);
    };
    let told = told.and_then(|message| serde_json::from_slice::<PresenceAnswer>(&message.payload).ok());
    Ok(match told {
        Some(PresenceAnswer { sessions: Some(sessions) }) => Presence::Online(sessions),
        Some(PresenceAnswer { sessions: None }) => Presence::NotTold,
        None => Presence::Away,
    })
}

/// Answers for an agent until the connection is over for good.
pub(crate) async fn attend(
    connection: &Connection,
    who: &Address,
    answer: Answering,
) -> Result<(), RelayError> {
    let questions = names::live_subjects("who", who.as_str());
    let mut questions = connection.client.subscribe(questions).await.map_err(failed)?;
    while let Some(question) = questions.next().await {
        let from = question.subject.as_str().rsplit('.').next().and_then(|from| Address::parse(from).ok());
        let Some(from) = from else { continue };
        let told = PresenceAnswer { sessions: answer(from.clone()).await };
        let body = serde_json::to_vec(&told).map_err(failed)?;
        let subject = names::presence_answer(from.as_str(), who.as_str());
        connection.client.publish(subject, body.into()).await.map_err(failed)?;
    }
    Err(RelayError::Unreachable("the connection is over".to_owned()))
}
