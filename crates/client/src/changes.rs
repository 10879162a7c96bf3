//! What happens in a daemon, as it happens, on a connection of its own. It ends with the connection: what was
//! missed meanwhile is for the caller to find out.

use trl_protocol::change::{ChangeEvent, SubscribeParams};
use trl_protocol::{Method, methods};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::message::{self, Incoming};

const METHOD: &str = methods::EventsSubscribe::NAME;

#[derive(Debug)]
pub struct Changes {
    connection: Connection,
    id: String,
}

enum Told {
    Subscribed,
    Change(Box<ChangeEvent>),
    Other,
}

impl Changes {
    /// Resolves when the subscription holds.
    pub(crate) async fn open(client: &Client, params: &SubscribeParams) -> Result<Changes> {
        let id = client.next_id();
        let line = message::request(&id, METHOD, params).map_err(|error| unreadable(error.to_string()))?;
        let mut connection = client.open().await?;
        connection.send(&line).await.map_err(|_| Error::Lost { method: METHOD })?;
        let mut changes = Changes { connection, id };
        while !matches!(changes.told().await?, Told::Subscribed) {}
        Ok(changes)
    }

    /// Not cancel-safe: a call that is dropped half-way may lose a line.
    pub async fn next(&mut self) -> Result<ChangeEvent> {
        loop {
            if let Told::Change(change) = self.told().await? {
                return Ok(*change);
            }
        }
    }

    async fn told(&mut self) -> Result<Told> {
        let lost = |_| Error::Lost { method: METHOD };
        let line = self.connection.next_line().await.map_err(lost)?;
        Ok(match message::read(line, &self.id).map_err(unreadable)? {
            Some(Incoming::Event { name, data }) => match name.as_ref() {
                "subscribed" => Told::Subscribed,
                // A newer daemon may have changes that we do not know.
                "change" => serde_json::from_str(data).map_or(Told::Other, Told::Change),
                _ => Told::Other,
            },
            Some(Incoming::Failed(fault)) => return Err(Error::Fault(fault)),
            Some(Incoming::Done(_)) => return Err(Error::Lost { method: METHOD }),
            None => Told::Other,
        })
    }
}

fn unreadable(problem: String) -> Error {
    Error::Unreadable { method: METHOD, problem }
}
