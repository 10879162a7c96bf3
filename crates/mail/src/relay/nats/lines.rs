//! The connections of this daemon: one for each file with a credential.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio::sync::Mutex;

use super::access::{Credentials, NatsConfig, User};
use super::line::Line;
use crate::identity::Address;
use crate::relay::RelayError;

#[derive(Debug)]
pub(crate) struct Lines {
    config: NatsConfig,
    open: Mutex<HashMap<Option<PathBuf>, Line>>,
}

impl Lines {
    pub(crate) fn new(config: NatsConfig) -> Lines {
        Lines { config, open: Mutex::default() }
    }

    /// The line that may speak for this agent.
    pub(crate) async fn of(&self, who: &Address) -> Result<Line, RelayError> {
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

    /// A line for what every member may do.
    pub(crate) async fn any(&self) -> Result<Line, RelayError> {
        if let Some(line) = self.open.lock().await.values().next() {
            return Ok(line.clone());
        }
        let file = self.config.credentials.any_file();
        if let (None, Credentials::Directory(dir)) = (&file, &self.config.credentials) {
            let why = format!("there is no credential in {}; `trl relay init` makes them", dir.display());
            return Err(RelayError::Misconfigured(why));
        }
        self.with(file).await
    }

    async fn with(&self, file: Option<PathBuf>) -> Result<Line, RelayError> {
        let mut open = self.open.lock().await;
        if let Some(line) = open.get(&file) {
            return Ok(line.clone());
        }
        let user = match &file {
            Some(path) => User::read(path).map_err(|error| RelayError::Misconfigured(error.to_string()))?,
            None => User::anonymous(),
        };
        let line = Line::open(&self.config, &user).await?;
        open.insert(file, line.clone());
        Ok(line)
    }
}
