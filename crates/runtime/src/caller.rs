//! Who asks, and where the events of a streaming request go.
//!
//! Transports make these; the runtime knows no more of a connection than this.

use tokio::sync::watch;
use trl_protocol::Event;

use crate::backend::BoxFuture;
use crate::grants::GrantKey;

/// The client will hear nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// The side of a transport that learns when its client is gone.
#[derive(Debug)]
pub struct Presence {
    present: watch::Sender<bool>,
    connection: Option<u64>,
}

impl Presence {
    pub fn new() -> Presence {
        Presence { present: watch::Sender::new(true), connection: None }
    }

    /// Of a client whose connection can speak for an agent.
    pub fn on(connection: u64) -> Presence {
        Presence { connection: Some(connection), ..Presence::new() }
    }

    pub fn leave(&self) {
        self.present.send_replace(false);
    }

    /// A caller for one request of this client.
    pub fn caller(&self, request_id: Option<String>) -> Caller {
        Caller { request_id, connection: self.connection, grant: None, present: self.present.subscribe() }
    }
}

impl Default for Presence {
    fn default() -> Presence {
        Presence::new()
    }
}

/// Who made one request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The request's own id if it is a string: it makes a repeated `exec.write` apply once.
    pub request_id: Option<String>,
    pub(crate) connection: Option<u64>,
    /// What limits this client; without one it may do everything.
    pub(crate) grant: Option<GrantKey>,
    present: watch::Receiver<bool>,
}

impl Caller {
    /// The same caller, who may do no more than a grant allows.
    #[must_use]
    pub fn under(self, grant: Option<GrantKey>) -> Caller {
        Caller { grant, ..self }
    }

    pub fn is_gone(&self) -> bool {
        !*self.present.borrow()
    }

    /// Resolves when the client is gone; never, if its transport cannot know.
    pub async fn gone(&self) {
        let mut present = self.present.clone();
        if present.wait_for(|present| !present).await.is_err() {
            // The transport dropped its side without a word: the connection is over.
        }
    }
}

/// Takes the events of one request, in order.
pub trait EventSink: Send {
    /// Resolves when the connection's writer has taken the event, so that a slow client
    /// slows down its own stream and nothing else.
    fn send<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, Result<(), Gone>>;
}
