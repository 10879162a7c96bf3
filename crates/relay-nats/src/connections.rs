//! The connections of this daemon: one for each file with a credential.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio::sync::Mutex;

use trl_mail::relay::broker::{BrokerConfig, Credentials};

use super::access::User;
use super::connection::Connection;
use trl_mail::identity::Address;
use trl_mail::relay::RelayError;

#[derive(Debug)]
pub(crate) struct Connections {
    config: BrokerConfig,
    open: Mutex<HashMap<Option<PathBuf>, Connection>>,
}

impl Connections {
    pub(crate) fn new(config: BrokerConfig) -> Connections {
        Connections { config, open: Mutex::default() }
    }

    /// The connection that may speak for this agent.
    pub(crate) async fn of(&self, who: &Address) -> Result<Connection, RelayError> {
        let file = self.config.credentials.file_for(who);
        if let (Some(path), Credentials::Directory(_)) = (&file, &self.config.credentials)
            && !path.exists()
        {
            return Err(RelayError::Misconfigured(format!(
                "there is no key for the agent {who}: its relay's administrator runs `trl relay init --agent \
                 NAME={who}` and hands over the file, to be put at {}",
                path.display()
            )));
        }
        self.with(file).await
    }

    /// A connection for what every member may do.
    pub(crate) async fn any(&self) -> Result<Connection, RelayError> {
        if let Some(connection) = self.open.lock().await.values().next() {
            return Ok(connection.clone());
        }
        let file = self.config.credentials.any_file();
        if let (None, Credentials::Directory(dir)) = (&file, &self.config.credentials) {
            let why = format!("no credentials in {}; `trl relay init` makes them", dir.display());
            return Err(RelayError::Misconfigured(why));
        }
        self.with(file).await
    }

    async fn with(&self, file: Option<PathBuf>) -> Result<Connection, RelayError> {
        let mut open = self.open.lock().await;
        if let Some(connection) = open.get(&file) {
            return Ok(connection.clone());
        }
        let user = match &file {
            Some(path) => User::read(path).map_err(|error| RelayError::Misconfigured(error.to_string()))?,
            None => User::anonymous(),
        };
        let connection = Connection::open(&self.config, &user).await?;
        open.insert(file, connection.clone());
        Ok(connection)
    }
}
