//! Who is there: contacts are asked through the relay, and ask us.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use trl_protocol::agent::CallerParams;
use trl_protocol::contact::{ContactRow, ContactState, PresenceList, PresenceRow, Whereabouts};

use crate::engine::dispatch::Caller;
use crate::engine::identity::agents::Agent;
use crate::engine::identity::contacts::parsed;
use crate::engine::{Engine, Tx};
use crate::error::MailError;
use crate::identity::Address;
use crate::label::Label;
use crate::relay::{Presence, RelayError};

const RETRY_AFTER: Duration = Duration::from_secs(2);

impl Tx<'_> {
    /// Live labels of an agent, for a peer that may write to it.
    fn told_to(&self, agent_id: i64, from: &Address) -> Result<Option<Vec<String>>, MailError> {
        match self.refusal_of_sender(agent_id, from.as_str())? {
            None => Ok(Some(self.live_labels(agent_id)?)),
            Some(_) => Ok(None),
        }
    }

    fn labels_here(&self, address: &str) -> Result<Vec<String>, MailError> {
        match self.agent_named(address)? {
            Some(agent) => self.live_labels(agent.id),
            None => Ok(Vec::new()),
        }
    }
}

impl Engine {
    pub(crate) async fn whereabouts(
        &self,
        params: CallerParams,
        caller: Caller,
    ) -> Result<PresenceList, MailError> {
        let (own, contacts) = self
            .tx(move |tx| {
                let agent_id = tx.caller(caller, params.as_token.as_deref())?.agent_id;
                Ok((tx.agent_by_id(agent_id)?.address, tx.list_contacts(agent_id)?.contacts))
            })
            .await?;
        let asked = contacts.into_iter().filter_map(|row| match row.state {
            ContactState::Own | ContactState::Accepted => Some(self.whereabouts_of(&own, row)),
            ContactState::Requested
            | ContactState::Asking
            | ContactState::Declined
            | ContactState::Blocked => None,
        });
        let contacts = join_all(asked).await.into_iter().collect::<Result<_, _>>()?;
        Ok(PresenceList { contacts })
    }

    async fn whereabouts_of(&self, own: &Address, row: ContactRow) -> Result<PresenceRow, MailError> {
        let (whereabouts, live_sessions) = if row.state == ContactState::Own {
            let address = row.address.clone();
            (Whereabouts::Online, self.tx(move |tx| tx.labels_here(&address)).await?)
        } else {
            match self.relay.presence(own, &parsed(&row.address)?).await {
                Ok(Presence::Online(sessions)) => (Whereabouts::Online, safe_labels(sessions)),
                Ok(Presence::Away) => (Whereabouts::Away, Vec::new()),
                Ok(Presence::NotTold) | Err(_) => (Whereabouts::Unknown, Vec::new()),
            }
        };
        Ok(PresenceRow { who: row.who, address: row.address, whereabouts, live_sessions })
    }
}

/// Answers for one agent, as long as the mail is open.
pub(crate) async fn attend(engine: Arc<Engine>, agent: Agent) {
    loop {
        let (here, agent_id) = (Arc::downgrade(&engine), agent.id);
        let answer = Box::new(move |from: Address| {
            let here = here.clone();
            let answer: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move {
                let engine = here.upgrade()?;
                engine.tx(move |tx| tx.told_to(agent_id, &from)).await.ok().flatten()
            });
            answer
        });
        match engine.relay.attend(&agent.address, answer).await {
            Ok(()) | Err(RelayError::Closed) => return,
            Err(error) => tracing::debug!(%error, agent = agent.id, "presence is unknown"),
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// What another daemon tells is its word: only labels are taken for labels, and not without end.
fn safe_labels(told: Vec<String>) -> Vec<String> {
    const MOST: usize = 1000;
    told.into_iter().filter(|label| Label::new(label).is_ok()).take(MOST).collect()
}
