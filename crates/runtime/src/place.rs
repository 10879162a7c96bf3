//! Where sessions can be: with hosts that this daemon starts, or on another daemon.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trl_protocol::Fault;
use trl_protocol::system::{PlaceFacts, RuntimeKind};

use crate::backend::Backend;
use crate::remote::RemoteDaemon;
use crate::runtime::Inner;

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Hosts(Arc<dyn Backend>),
    Daemon(Arc<RemoteDaemon>),
}

impl Place {
    /// What a request's name of a runtime stands for.
    pub(crate) fn find(runtime: &Inner, asked: &str) -> Result<Place, Fault> {
        match runtime.remotes.find(&runtime.config, asked) {
            Some(daemon) => daemon.map(Place::Daemon),
            None => {
                let granted = runtime.remotes.granted();
                runtime.backends.find(&runtime.config, asked, &granted).map(Place::Hosts)
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Place::Hosts(backend) => backend.name(),
            Place::Daemon(daemon) => daemon.name(),
        }
    }

    pub(crate) fn kind(&self) -> RuntimeKind {
        match self {
            Place::Hosts(backend) => backend.kind(),
            Place::Daemon(_) => RuntimeKind::Trl,
        }
    }

    /// Whether it can be used, what it is like, and how long it took to answer.
    pub(crate) async fn look(&self) -> Result<(Option<PlaceFacts>, Duration), Fault> {
        match self {
            Place::Hosts(backend) => {
                let begun = Instant::now();
                Ok((backend.look().await?, begun.elapsed()))
            }
            Place::Daemon(daemon) => daemon.look().await,
        }
    }
}
