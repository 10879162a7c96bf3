//! The mail of this daemon, opened at its start if there is any, else by the first request about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use trl_mail::clock::SystemClock;
use trl_mail::config::Confiner;
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::broker::{BrokerConfig, OpenRelay};
use trl_mail::relay::{EmbeddedLimits, EmbeddedRelay, Relay};
use trl_mail::steps::Steps;
use trl_mail::{Mail, MailConfig, MailError};
use trl_protocol::Fault;
use trl_protocol::agent::Mode;
use trl_sys::private::make_private;

use crate::blocking::run_blocking;
use crate::config::Config;

/// A daemon that nobody asks about mail has no store, no thread and no lock.
#[derive(Debug)]
pub(crate) struct Mailroom {
    dir: PathBuf,
    /// Becomes the commands of auto-responders.
    program: PathBuf,
    mode: Mode,
    relay: Option<(BrokerConfig, OpenRelay)>,
    open: Mutex<Option<Arc<Mail>>>,
    opened: watch::Sender<()>,
}

impl Mailroom {
    pub(crate) fn new(config: &Config) -> Mailroom {
        let relay = config.relay.clone().map(|broker| (broker, config.open_relay));
        let (dir, program) = (config.mail_dir.clone(), config.host_program.clone());
        let mode = config.mail_mode;
        Mailroom { dir, program, mode, relay, open: Mutex::new(None), opened: watch::Sender::new(()) }
    }

    /// Mail that waits for a moment, for a relay or for an answer does not wait for a request too.
    pub(crate) async fn resume(&self) {
        if !self.dir.join("mail.db").exists() {
            return;
        }
        if let Err(fault) = self.mail().await {
            tracing::warn!(message = %fault.message, "mail is not opened; the next request about it tries again");
        }
    }

    /// The mail, opened now if it was not. What failed is tried again by the next request.
    pub(crate) async fn mail(&self) -> Result<Arc<Mail>, Fault> {
        let mut open = self.open.lock().await;
        if let Some(mail) = &*open {
            return Ok(Arc::clone(mail));
        }
        let (dir, program, mode) = (self.dir.clone(), self.program.clone(), self.mode);
        let relay = self.relay.clone();
        // Opening waits for the disk, and sessions must not wait with it.
        let opened = run_blocking(move || open_in(&dir, program, mode, relay)).await;
        let mail =
            Arc::new(opened.map_err(|error| Fault::refused_by_system("mail cannot be opened", &error))??);
        tracing::info!("mail is open");
        *open = Some(Arc::clone(&mail));
        self.opened.send_replace(());
        Ok(mail)
    }

    /// The mail, when somebody has opened it.
    pub(crate) async fn opened(&self) -> Arc<Mail> {
        let mut opened = self.opened.subscribe();
        loop {
            if let Some(mail) = &*self.open.lock().await {
                return Arc::clone(mail);
            }
            // The sender is ours.
            let _ = opened.changed().await;
        }
    }

    /// Whether any agent has a live session. A store that nobody opened has none.
    pub(crate) async fn is_anyone_live(&self) -> bool {
        let mail = self.open.lock().await.clone();
        match mail {
            // One that cannot tell is not to be ended for it.
            Some(mail) => mail.is_anyone_live().await.unwrap_or(true),
            None => false,
        }
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

fn open_in(
    dir: &Path,
    program: PathBuf,
    mode: Mode,
    broker: Option<(BrokerConfig, OpenRelay)>,
) -> Result<Mail, Fault> {
    make_private(dir).map_err(|error| Fault::internal(format!("mail cannot be opened: {error}")))?;
    let relay = || -> Result<Arc<dyn Relay>, MailError> {
        if let Some((broker, open)) = broker {
            return Ok(open(broker, dir.join("broker"))?);
        }
        let relay = EmbeddedRelay::open(&dir.join("relay"), EmbeddedLimits::default(), Steps::default())?;
        Ok(Arc::new(relay))
    };
    let mut config = MailConfig { mode, ..MailConfig::new(dir.to_owned()) };
    config.auto.confiner = Some(Confiner { program, arguments: vec!["confine".to_owned()] });
    Mail::open_with(config, Arc::new(SystemClock), Arc::new(SystemProcesses), relay).map_err(Fault::from)
}
