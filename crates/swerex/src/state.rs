//! What all requests share: the daemon, the sessions by name, the answers that were given.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use trl_client::{Client, Conversation, Error, Held};
use trl_protocol::session::{BindParams, CreateParams};
use trl_protocol::{Code, Method, methods};

use crate::exception::Exception;
use crate::repeats::Repeats;
use crate::shell::Shell;

/// What the server must be told, since it looks nothing up by itself.
#[derive(Debug)]
pub struct Settings {
    pub auth_token: String,
    /// How sessions are made: environment and working directory of whoever started the server.
    pub session: CreateParams,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Arc<Client>,
    pub(crate) settings: Settings,
    pub(crate) repeats: Repeats,
    shells: Mutex<HashMap<String, Arc<Shell>>>,
    /// A session beside which commands without a session run.
    beside: OnceCell<String>,
    bound: Mutex<Bound>,
}

/// The sessions end with a connection to the daemon, and so with this process, however that ends.
#[derive(Debug, Default)]
struct Bound {
    sessions: Vec<String>,
    connection: Option<Held>,
}

impl Shared {
    pub(crate) fn new(client: Arc<Client>, settings: Settings) -> Shared {
        Shared {
            client,
            settings,
            repeats: Repeats::default(),
            shells: Mutex::default(),
            beside: OnceCell::new(),
            bound: Mutex::default(),
        }
    }

    /// A request to the daemon.
    pub(crate) async fn call<M: Method>(&self, params: Value) -> Result<Value, Error> {
        self.bind_again().await;
        self.client.call_as::<M, Value>(params).await
    }

    async fn bind(&self, session: String) -> Result<(), Error> {
        let mut bound = self.bound.lock().await;
        let mut conversation = match bound.connection.take().filter(Held::is_open) {
            Some(open) => open.resume(&self.client),
            None => self.client.conversation().await?,
        };
        let asked = conversation.call::<methods::SessionBind>(&binding(&session)).await;
        bound.connection = Some(Conversation::pause(conversation));
        asked?;
        bound.sessions.push(session);
        Ok(())
    }

    /// After the daemon was replaced. A failure is told by the request that follows, and tried again with the next.
    async fn bind_again(&self) {
        let mut bound = self.bound.lock().await;
        if bound.sessions.is_empty() || bound.connection.as_ref().is_some_and(Held::is_open) {
            return;
        }
        let Ok(mut conversation) = self.client.conversation().await else { return };
        let mut left = Vec::new();
        for session in std::mem::take(&mut bound.sessions) {
            match conversation.call::<methods::SessionBind>(&binding(&session)).await {
                // It has ended meanwhile.
                Err(Error::Fault(fault))
                    if matches!(fault.code, Code::SessionNotFound | Code::SessionTerminated) => {}
                _ => left.push(session),
            }
        }
        bound.sessions = left;
        bound.connection = Some(Conversation::pause(conversation));
    }

    /// Ends a session. One that is over already is what was asked for.
    pub(crate) async fn destroy(&self, session: &str) {
        let _ = self.call::<methods::SessionDestroy>(json!({"session_id": session})).await;
        self.bound.lock().await.sessions.retain(|bound| bound != session);
    }

    /// A new session of the daemon; `more` is added to how sessions are made.
    pub(crate) async fn create(&self, more: Value) -> Result<String, Exception> {
        let mut params = serde_json::to_value(&self.settings.session).map_err(Exception::internal)?;
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        let made = self.call::<methods::SessionCreate>(params).await.map_err(Exception::of_daemon)?;
        let id = made["session_id"].as_str().unwrap_or_default().to_owned();
        if let Err(error) = self.bind(id.clone()).await {
            self.destroy(&id).await;
            return Err(Exception::of_daemon(error));
        }
        Ok(id)
    }

    pub(crate) async fn beside(&self) -> Result<&str, Exception> {
        let create = || self.create(json!({"shell": "bash", "timeout_s": 0}));
        self.beside.get_or_try_init(create).await.map(String::as_str)
    }

    pub(crate) async fn shell(&self, name: &str) -> Result<Arc<Shell>, Exception> {
        let shells = self.shells.lock().await;
        shells.get(name).cloned().ok_or_else(|| Exception::no_session(name))
    }

    /// The name is taken before the shell is there, so that two requests do not make two.
    pub(crate) async fn add(&self, name: &str, shell: Arc<Shell>) -> Result<(), Exception> {
        let mut shells = self.shells.lock().await;
        if shells.contains_key(name) {
            return Err(Exception::swerex("SessionExistsError", format!("session {name} already exists")));
        }
        shells.insert(name.to_owned(), shell);
        Ok(())
    }

    pub(crate) async fn remove(&self, name: &str) -> Option<Arc<Shell>> {
        self.shells.lock().await.remove(name)
    }

    /// Ends every session.
    pub(crate) async fn close(&self) {
        let shells: Vec<_> = self.shells.lock().await.drain().collect();
        for (_, shell) in shells {
            shell.close(self).await;
        }
    }

    /// Ends also what ran without a session.
    pub(crate) async fn end(&self) {
        self.close().await;
        if let Some(id) = self.beside.get() {
            self.destroy(id).await;
        }
    }
}

fn binding(session: &str) -> BindParams {
    BindParams { session_id: session.to_owned(), bound: true }
}
