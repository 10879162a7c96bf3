//! A session as people see it, across cut connections and restarted daemons.
//!
//! What is shown on a new connection begins with the whole screen, so nothing is missed
//! when the old one was cut.

use serde_json::Value;
use trl_protocol::session::{AttachParams, Detached};
use trl_protocol::{Code, Method, methods};

use crate::client::Client;
use crate::connection::{Connection, Ended};
use crate::error::{Error, Result};
use crate::message::{self, Event, Incoming};
use crate::patience::Patience;

const METHOD: &str = methods::SessionAttach::NAME;

/// What comes next of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewEvent {
    /// Bytes for the terminal.
    Bytes { offset: u64, bytes: Vec<u8> },
    /// The last: why it ended.
    Over(Detached),
}

#[derive(Debug)]
pub struct SessionView<'c> {
    client: &'c Client,
    connection: Connection,
    params: AttachParams,
    id: String,
    patience: Patience,
}

impl<'c> SessionView<'c> {
    pub(crate) async fn open(client: &'c Client, params: &AttachParams) -> Result<SessionView<'c>> {
        let mut patience = Patience::new();
        let (connection, id) = ask(client, params, &mut patience).await?;
        Ok(SessionView { client, connection, params: params.clone(), id, patience })
    }

    /// What comes next; nothing comes after [`ViewEvent::Over`] or an error.
    ///
    /// Not cancel-safe: a call that is dropped half-way may lose a line.
    pub async fn next(&mut self) -> Result<ViewEvent> {
        loop {
            let read = match self.connection.next_line().await {
                Ok(line) => read(line, &self.id, self.client.may_return())?,
                Err(ended) => Read::Cut(ended),
            };
            match read {
                Read::ViewEvent(shown) => {
                    self.patience.renew();
                    return Ok(shown);
                }
                Read::Skip => {}
                Read::Cut(ended) => self.resume(ended).await?,
                Read::Leaving => {
                    // Its socket still accepts; the end of this connection is the sign that it is gone.
                    while self.connection.next_line().await.is_ok() {}
                    self.resume(Ended::Closed).await?;
                }
            }
        }
    }

    /// Goes on over a new connection. The place is still ours, if only by a moment.
    async fn resume(&mut self, ended: Ended) -> Result<()> {
        if !self.patience.ended(ended) {
            return Err(Error::Lost { method: METHOD });
        }
        self.params.take_over = !self.params.read_only;
        // The host knows the size, and perhaps a later one.
        (self.params.rows, self.params.cols) = (None, None);
        (self.connection, self.id) = ask(self.client, &self.params, &mut self.patience).await?;
        Ok(())
    }
}

enum Read {
    ViewEvent(ViewEvent),
    Skip,
    Cut(Ended),
    /// Cut by a daemon that says goodbye and still holds its socket.
    Leaving,
}

fn read(line: &[u8], id: &str, may_return: bool) -> Result<Read> {
    Ok(match message::read(line, id).map_err(unreadable)? {
        Some(Incoming::Event { name, data }) => match message::event(&name, data).map_err(unreadable)? {
            Some(Event::Output { offset, bytes, .. }) => Read::ViewEvent(ViewEvent::Bytes { offset, bytes }),
            _ => Read::Skip,
        },
        Some(Incoming::Done(data)) => {
            let over = serde_json::from_str(data).map_err(|error| unreadable(error.to_string()))?;
            Read::ViewEvent(ViewEvent::Over(over))
        }
        Some(Incoming::Failed(fault)) if fault.code == Code::ShuttingDown && may_return => Read::Leaving,
        Some(Incoming::Failed(fault)) => return Err(Error::Fault(fault)),
        None => Read::Skip,
    })
}

async fn ask(
    client: &Client,
    params: &AttachParams,
    patience: &mut Patience,
) -> Result<(Connection, String)> {
    let id = client.next_id();
    let params: Value = serde_json::to_value(params).map_err(|error| unreadable(error.to_string()))?;
    let line = message::request(&id, METHOD, params).map_err(|error| unreadable(error.to_string()))?;
    loop {
        let mut connection = client.open_for(patience.has_lost_one()).await?;
        patience.sent();
        if connection.send(&line).await.is_ok() {
            return Ok((connection, id));
        }
        if !patience.ended(Ended::Unread) {
            return Err(Error::Lost { method: METHOD });
        }
    }
}

fn unreadable(problem: String) -> Error {
    Error::Unreadable { method: METHOD, problem }
}
