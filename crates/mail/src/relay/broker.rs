//! Where a broker between machines is, and which files identify us to it.
//!
//! Plain data: settings are resolved into it whether or not this build contains a relay that uses it.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Relay, RelayError};
use crate::identity::Address;

/// Opens a relay over this broker. The file remembers which server was last published to.
pub type OpenRelay = fn(BrokerConfig, PathBuf) -> Result<Arc<dyn Relay>, RelayError>;

/// For builds without a relay between machines.
pub fn not_in_this_build(_config: BrokerConfig, _memory: PathBuf) -> Result<Arc<dyn Relay>, RelayError> {
    Err(RelayError::NotInThisBuild)
}

/// How to reach a broker. Nothing here is secret; the files it names are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerConfig {
    /// `nats://host:4222` or `tls://…`, several of one cluster with commas between them.
    pub servers: String,
    pub credentials: Credentials,
    pub tls: Tls,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// One user for all agents of this daemon: a seed or a `.creds` file.
    File(PathBuf),
    /// A user for each agent: `<address>.nk` or `<address>.creds`.
    Directory(PathBuf),
    None,
}

impl Credentials {
    pub fn at(path: PathBuf) -> Credentials {
        if path.is_dir() { Credentials::Directory(path) } else { Credentials::File(path) }
    }

    /// The file that speaks for this agent.
    pub fn file_for(&self, who: &Address) -> Option<PathBuf> {
        match self {
            Credentials::File(path) => Some(path.clone()),
            Credentials::Directory(dir) => {
                let named = |ending: &str| dir.join(format!("{who}.{ending}"));
                Some(
                    [named("nk"), named("creds")]
                        .into_iter()
                        .find(|path| path.exists())
                        .unwrap_or(named("nk")),
                )
            }
            Credentials::None => None,
        }
    }

    /// Any file there is: enough for what every member may do.
    pub fn any_file(&self) -> Option<PathBuf> {
        match self {
            Credentials::File(path) => Some(path.clone()),
            Credentials::Directory(dir) => {
                let is_key =
                    |path: &PathBuf| path.extension().is_some_and(|end| end == "nk" || end == "creds");
                let mut files: Vec<PathBuf> =
                    std::fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
                files.retain(is_key);
                files.sort();
                files.into_iter().next()
            }
            Credentials::None => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the authorities that the broker's certificate is checked against.
    pub ca: Option<PathBuf>,
    /// Ours, for brokers that ask for one.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
}
