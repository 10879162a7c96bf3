//! Sessions and commands that end with the client, also when `trl mcp` is killed.
//!
//! The daemon ends what is bound to a connection when that connection closes. A daemon that ends takes the bindings
//! with it, but not what was bound. So one task owns the connection: it learns that the connection is closed and binds
//! everything again as soon as the next daemon is there, whether or not a call comes meanwhile.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use trl_client::{Client, Conversation, Error, Held};
use trl_protocol::{Code, ExecId, Fault, SessionId, exec, methods, session};

use crate::fault;

/// How often it is tried whether a daemon is there again. Nothing tells when one is.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often a daemon may go away while something is bound to it.
const ATTEMPTS: usize = 5;
/// How long a client that leaves waits for what it started to be bound to a new daemon.
const LEAVING: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BoundItem {
    Session(SessionId),
    Exec(ExecId),
}

#[derive(Debug)]
pub(crate) struct ConnectionBound {
    shared: Arc<Shared>,
    /// To the task that owns the connection; it is started with the first thing to bind, and ends with this.
    requests: OnceLock<mpsc::UnboundedSender<Request>>,
}

#[derive(Debug)]
struct Shared {
    client: Arc<Client>,
    items: Mutex<HashSet<BoundItem>>,
    /// Whether all items are bound to a connection that is open, as far as is known.
    is_held: AtomicBool,
}

#[derive(Debug)]
enum Request {
    Bind(BoundItem, oneshot::Sender<Result<(), Fault>>),
    /// The client leaves: what it started must be bound before its connection closes.
    Leave(oneshot::Sender<()>),
}

impl ConnectionBound {
    pub(crate) fn new(client: Arc<Client>) -> ConnectionBound {
        let shared = Shared { client, items: Mutex::default(), is_held: AtomicBool::new(false) };
        ConnectionBound { shared: Arc::new(shared), requests: OnceLock::new() }
    }

    /// Whether it is to end with the client.
    pub(crate) fn has(&self, item: BoundItem) -> bool {
        self.shared.items().contains(&item)
    }

    /// The same, and nothing is known that stands against it.
    pub(crate) fn holds(&self, item: BoundItem) -> bool {
        self.has(item) && self.shared.is_held.load(Ordering::Relaxed)
    }

    pub(crate) async fn bind(&self, item: BoundItem) -> Result<(), Fault> {
        self.shared.items().insert(item);
        let gone = || Fault::internal("nothing can be bound to the client any more");
        let (reply, answer) = oneshot::channel();
        self.requests().send(Request::Bind(item, reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// It has ended, or is to stay when the client leaves; then the daemon must be told, too.
    pub(crate) fn forget(&self, item: BoundItem) {
        self.shared.items().remove(&item);
    }

    /// When the client leaves in good order: if the daemon was lost and no other was there since, what the client
    /// started is bound to a new one, so that it ends.
    pub(crate) async fn leave(&self) {
        let Some(requests) = self.requests.get() else { return };
        let (reply, answer) = oneshot::channel();
        if requests.send(Request::Leave(reply)).is_ok()
            && tokio::time::timeout(LEAVING, answer).await.is_err()
        {
            tracing::warn!("there is no daemon to end what this client started");
        }
    }

    fn requests(&self) -> &mpsc::UnboundedSender<Request> {
        self.requests.get_or_init(|| {
            let (sender, requests) = mpsc::unbounded_channel();
            let owner = Owner { shared: Arc::clone(&self.shared), held: None };
            tokio::spawn(owner.serve(requests));
            sender
        })
    }
}

impl Shared {
    fn items(&self) -> MutexGuard<'_, HashSet<BoundItem>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that has the connection.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    held: Option<Held>,
}

/// Whether a daemon is started if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Yes,
    No,
}

enum OwnerEvent {
    Asked(Request),
    /// The daemon closed the connection, or it is time to look for the next one.
    Unbound,
    Over,
}

impl Owner {
    async fn serve(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        loop {
            let event = tokio::select! {
                request = requests.recv() => request.map_or(OwnerEvent::Over, OwnerEvent::Asked),
                () = self.unbound() => OwnerEvent::Unbound,
            };
            match event {
                OwnerEvent::Asked(Request::Bind(item, reply)) => {
                    // Whoever asked may have left; it is bound all the same.
                    let _ = reply.send(self.bind(item).await);
                }
                OwnerEvent::Asked(Request::Leave(reply)) => {
                    self.bind_before_leaving().await;
                    let _ = reply.send(());
                }
                OwnerEvent::Unbound => {
                    self.shared.is_held.store(false, Ordering::Relaxed);
                    self.held = None;
                    // A daemon that was ended on purpose is not started for this.
                    if self.has_items() && self.bind_all(Start::No).await.is_ok() {
                        tracing::info!("what this client started is bound to the next daemon");
                    }
                }
                OwnerEvent::Over => return,
            }
        }
    }

    fn has_items(&self) -> bool {
        !self.shared.items().is_empty()
    }

    /// Resolves when the daemon has closed the connection, and now and then while there is none.
    async fn unbound(&self) {
        match &self.held {
            Some(held) => held.closed().await,
            None if self.has_items() => tokio::time::sleep(LOOK_AGAIN).await,
            None => std::future::pending().await,
        }
    }

    async fn bind(&mut self, item: BoundItem) -> Result<(), Fault> {
        if let Some(held) = self.held.take().filter(Held::is_open) {
            let client = Arc::clone(&self.shared.client);
            let mut conversation = held.resume(&client);
            match bind(&mut conversation, item).await {
                Ok(()) => {
                    self.hold(conversation);
                    return Ok(());
                }
                Err(Error::Fault(fault)) if fault.code != Code::ShuttingDown => {
                    self.shared.items().remove(&item);
                    self.hold(conversation);
                    return Err(fault::of(Error::Fault(fault)));
                }
                Err(_) => {}
            }
        }
        let refused = self.bind_all(Start::Yes).await?;
        refused.into_iter().find(|(refused, _)| *refused == item).map_or(Ok(()), |(_, fault)| Err(fault))
    }

    async fn bind_before_leaving(&mut self) {
        if !self.has_items() || self.held.as_ref().is_some_and(Held::is_open) {
            return;
        }
        let start = if self.shared.client.has_lost_daemon().await { Start::Yes } else { Start::No };
        if let Err(fault) = self.bind_all(start).await {
            tracing::debug!(code = %fault.code, message = %fault.message, "what this client started goes on");
        }
    }

    /// Everything, on a new connection. What is over is no longer bound, and is returned with the reason.
    async fn bind_all(&mut self, start: Start) -> Result<Vec<(BoundItem, Fault)>, Fault> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.try_bind_all(start).await {
                Ok(refused) => return Ok(refused),
                Err(Error::Lost { .. }) if attempts < ATTEMPTS => {}
                Err(error) => return Err(fault::of(error)),
            }
        }
    }

    async fn try_bind_all(&mut self, start: Start) -> Result<Vec<(BoundItem, Fault)>, Error> {
        let client = Arc::clone(&self.shared.client);
        let mut conversation = match start {
            Start::Yes => client.conversation().await?,
            Start::No => client.conversation_if_running().await?,
        };
        let items: Vec<BoundItem> = self.shared.items().iter().copied().collect();
        let mut refused = Vec::new();
        for item in items {
            match bind(&mut conversation, item).await {
                Ok(()) => {}
                Err(Error::Fault(fault)) if fault.code == Code::ShuttingDown => {
                    conversation.pause().closed().await;
                    return Err(Error::Lost { method: "session.bind" });
                }
                Err(Error::Fault(fault)) => {
                    self.shared.items().remove(&item);
                    refused.push((item, fault::of(Error::Fault(fault))));
                }
                Err(error) => return Err(error),
            }
        }
        self.hold(conversation);
        Ok(refused)
    }

    fn hold(&mut self, conversation: Conversation<'_>) {
        self.held = Some(conversation.pause());
        self.shared.is_held.store(true, Ordering::Relaxed);
    }
}

async fn bind(conversation: &mut Conversation<'_>, item: BoundItem) -> Result<(), Error> {
    match item {
        BoundItem::Session(id) => {
            let params = session::BindParams { session_id: id.to_string(), bound: true };
            conversation.call::<methods::SessionBind>(&params).await.map(drop)
        }
        BoundItem::Exec(id) => {
            let params = exec::BindParams { exec_id: id.to_string(), bound: true };
            conversation.call::<methods::ExecBind>(&params).await.map(drop)
        }
    }
}
