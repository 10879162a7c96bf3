//! Requests that belong together: one connection for all of them, one after the other.
//!
//! What a daemon remembers of a connection (which agent it speaks for, what ends with it)
//! holds only here; so nothing is repeated on another one when the connection is cut. The one
//! exception is a first request that the daemon has not read: there is nothing to remember yet.

use trl_protocol::Method;

use crate::client::{Client, exchange};
use crate::connection::{Connection, Ended};
use crate::error::{Error, Result};
use crate::message;
use crate::patience::Patience;

#[derive(Debug)]
pub struct Conversation<'c> {
    client: &'c Client,
    connection: Connection,
    /// Whether anything was answered on it.
    begun: bool,
}

impl<'c> Conversation<'c> {
    pub(crate) async fn open(client: &'c Client) -> Result<Conversation<'c>> {
        Ok(Conversation { client, connection: client.open().await?, begun: false })
    }

    /// On this connection alone: another one might start a daemon.
    pub(crate) fn over(client: &'c Client, connection: Connection) -> Conversation<'c> {
        Conversation { client, connection, begun: true }
    }

    /// Calls a method and waits for its reply.
    pub async fn call<M: Method>(&mut self, params: &M::Params) -> Result<M::Reply> {
        let method = M::NAME;
        let unreadable = |error: serde_json::Error| Error::Unreadable { method, problem: error.to_string() };
        let id = self.client.next_id();
        let line = message::request(&id, method, params).map_err(unreadable)?;
        let mut patience = Patience::new();
        loop {
            match exchange(&mut self.connection, &id, &line, method).await {
                Ok(answer) => {
                    self.begun = true;
                    return serde_json::from_str(&answer?).map_err(unreadable);
                }
                Err(Ended::Unread) if !self.begun && patience.ended(Ended::Unread) => {
                    self.connection = self.client.open().await?;
                }
                Err(_) => return Err(Error::Lost { method }),
            }
        }
    }

    /// Leaves the connection as it is, to be taken up again.
    pub fn pause(self) -> Held {
        Held(self.connection)
    }
}

/// A conversation that nobody speaks in: what hangs on its connection stays while this does.
#[derive(Debug)]
pub struct Held(Connection);

impl Held {
    /// False once the daemon has closed the connection.
    pub fn is_open(&self) -> bool {
        self.0.is_fresh()
    }

    /// Waits until the daemon has closed the connection.
    pub async fn closed(&self) {
        self.0.until_stale().await;
    }

    pub fn resume(self, client: &Client) -> Conversation<'_> {
        Conversation { client, connection: self.0, begun: true }
    }
}
