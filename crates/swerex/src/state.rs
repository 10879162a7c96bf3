//! What all requests share: the daemon, the sessions by name, the answers that were given.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use trl_client::Client;
use trl_protocol::session::CreateParams;
use trl_protocol::{Method, methods};

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
}

impl Shared {
    pub(crate) fn new(client: Arc<Client>, settings: Settings) -> Shared {
        Shared {
            client,
            settings,
            repeats: Repeats::default(),
            shells: Mutex::default(),
            beside: OnceCell::new(),
        }
    }

    /// A request to the daemon.
    pub(crate) async fn call<M: Method>(&self, params: Value) -> Result<Value, trl_client::Error> {
        self.client.call_as::<M, Value>(params).await
    }

    /// A new session of the daemon; `more` is added to how sessions are made.
    pub(crate) async fn create(&self, more: Value) -> Result<String, Exception> {
        let mut params = serde_json::to_value(&self.settings.session).map_err(Exception::internal)?;
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        let made = self.call::<methods::SessionCreate>(params).await.map_err(Exception::of_daemon)?;
        Ok(made["session_id"].as_str().unwrap_or_default().to_owned())
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
            // Nobody is left to be told.
            let _ = self.call::<methods::SessionDestroy>(json!({"session_id": id})).await;
        }
    }
}
