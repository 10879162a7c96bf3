//! The mail of this daemon, opened by the first request that is about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;
use trl_mail::clock::SystemClock;
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::{EmbeddedLimits, EmbeddedRelay, Relay};
use trl_mail::steps::Steps;
use trl_mail::{Mail, MailConfig, MailError};
use trl_protocol::Fault;

use crate::private_dir::make_private;

/// A daemon that nobody asks about mail has no store, no thread and no lock.
#[derive(Debug)]
pub(crate) struct Mailroom {
    dir: PathBuf,
    open: Mutex<Option<Arc<Mail>>>,
}

impl Mailroom {
    pub(crate) fn new(dir: PathBuf) -> Mailroom {
        Mailroom { dir, open: Mutex::new(None) }
    }

    /// The mail, opened now if it was not. What failed is tried again by the next request.
    pub(crate) async fn mail(&self) -> Result<Arc<Mail>, Fault> {
        let mut open = self.open.lock().await;
        if let Some(mail) = &*open {
            return Ok(Arc::clone(mail));
        }
        let dir = self.dir.clone();
        // Opening waits for the disk, and sessions must not wait with it.
        let opened = tokio::task::spawn_blocking(move || open_in(&dir)).await;
        let mail =
            Arc::new(opened.map_err(|error| Fault::internal(format!("mail cannot be opened: {error}")))??);
        tracing::info!("mail is open");
        *open = Some(Arc::clone(&mail));
        Ok(mail)
    }

    pub(crate) async fn connection_closed(&self, connection: u64) {
        let mail = self.open.lock().await.clone();
        if let Some(mail) = mail
            && let Err(fault) = mail.connection_closed(connection).await
        {
            tracing::warn!(code = %fault.code, message = %fault.message, "a session's end was not noted");
        }
    }

    pub(crate) async fn close(&self) {
        let Some(mail) = self.open.lock().await.take() else { return };
        match Arc::try_unwrap(mail).map(Mail::close) {
            Ok(closing) => {
                if let Err(error) = closing.await {
                    tracing::warn!(%error, "mail was not closed in order; the next start looks after it");
                }
            }
            Err(_) => tracing::warn!("mail was still in use; the next start looks after it"),
        }
    }
}

fn open_in(dir: &Path) -> Result<Mail, Fault> {
    make_private(dir).map_err(|error| Fault::internal(format!("mail cannot be opened: {error}")))?;
    let relay = || -> Result<Arc<dyn Relay>, MailError> {
        let relay = EmbeddedRelay::open(&dir.join("relay"), EmbeddedLimits::default(), Steps::default())?;
        Ok(Arc::new(relay))
    };
    let config = MailConfig::new(dir.to_owned());
    Mail::open_with(config, Arc::new(SystemClock), Arc::new(SystemProcesses), relay).map_err(Fault::from)
}
