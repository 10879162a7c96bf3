//! Who is there, asked and answered while both are connected; nothing of it is kept.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};

use super::line::Line;
use super::names;
use crate::identity::Address;
use crate::relay::{Answering, Presence, RelayError};

/// A daemon that is connected answers within this, or counts as away.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Serialize, Deserialize)]
struct Told {
    /// `None` to whom it is not told.
    sessions: Option<Vec<String>>,
}

fn failed(error: impl std::fmt::Display) -> RelayError {
    RelayError::Unreachable(error.to_string())
}

/// The answer comes on a subject that only the one who is asked may publish to.
pub(crate) async fn ask(line: &Line, from: &Address, who: &Address) -> Result<Presence, RelayError> {
    let answers = names::presence_answer(from.as_str(), who.as_str());
    let mut answer = line.client.subscribe(answers).await.map_err(failed)?;
    let inbox = line.client.new_inbox();
    let mut nobody = line.client.subscribe(inbox.clone()).await.map_err(failed)?;
    let question = names::presence_subject(who.as_str(), from.as_str());
    line.client.publish_with_reply(question, inbox, Bytes::new()).await.map_err(failed)?;
    tokio::select! {
        told = answer.next() => {
            let told = told.and_then(|message| serde_json::from_slice::<Told>(&message.payload).ok());
            Ok(match told {
                Some(Told { sessions: Some(sessions) }) => Presence::Online(sessions),
                Some(Told { sessions: None }) => Presence::NotTold,
                None => Presence::Away,
            })
        }
        // The broker itself says that nobody listens.
        _ = nobody.next() => Ok(Presence::Away),
        () = tokio::time::sleep(ANSWERED_WITHIN) => Ok(Presence::Away),
    }
}

/// Answers for an agent until the connection is over for good.
pub(crate) async fn attend(line: &Line, who: &Address, answer: Answering) -> Result<(), RelayError> {
    let questions = names::presence_subject(who.as_str(), "*");
    let mut questions = line.client.subscribe(questions).await.map_err(failed)?;
    while let Some(question) = questions.next().await {
        let from = question.subject.as_str().rsplit('.').next().and_then(|from| Address::parse(from).ok());
        let Some(from) = from else { continue };
        let told = Told { sessions: answer(from.clone()).await };
        let body = serde_json::to_vec(&told).map_err(failed)?;
        let subject = names::presence_answer(from.as_str(), who.as_str());
        line.client.publish(subject, body.into()).await.map_err(failed)?;
    }
    Err(RelayError::Unreachable("the connection is over".to_owned()))
}
