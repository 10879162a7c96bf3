//! Sessions of another daemon that this one makes and lists as its own.
//!
//! Hosts over there belong to that daemon, so nothing speaks to them from here: a request for such
//! a session is forwarded to its daemon over the ordinary protocol ([`forward`]), under a token
//! that says what is allowed. Ids are those of the other daemon; names are ours. What is known of the sessions is
//! kept on disk, so that the next daemon here knows them before it has reached the other.

mod access;
mod create;
mod daemon;
mod forward;
mod list;
mod session;
mod watch;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch as watch_channel;
use trl_client::remote::Address;
use trl_protocol::session::SessionInfo;
use trl_protocol::{Code, Fault, SessionId};
use trl_sys::private::create_dir;

use crate::config::{Config, NamedRuntime};
use crate::health::Health;
use crate::runtime::Inner;

use access::Access;
pub(crate) use access::Grant;
pub(crate) use create::{create, end, end_with_daemon};
pub(crate) use daemon::RemoteDaemon;
pub(crate) use forward::{cancel, forward, session, session_of};
pub(crate) use list::{execs, sessions};
pub(crate) use session::RemoteSession;
pub(crate) use watch::follow_all;

/// What a request writes before the address of a daemon.
const PREFIX: &str = "trl:";
/// The file with a daemon's name, in its directory.
const NAME: &str = "name";

/// The daemons that this one uses, by name.
#[derive(Debug)]
pub(crate) struct Remotes {
    daemons: Mutex<BTreeMap<String, Arc<RemoteDaemon>>>,
    /// Sessions over there that are not ours, as they were last listed.
    foreign: Mutex<BTreeMap<SessionId, Arc<RemoteSession>>>,
    /// How many want to hear what happens to sessions on all daemons.
    followers: watch_channel::Sender<usize>,
    health: Health,
    /// What is known of sessions, a directory for each daemon.
    dir: PathBuf,
    /// Access that other agents have granted, a file for each.
    grants: PathBuf,
}

/// Sessions of others that were not there, or are not there any more.
struct ForeignChanges {
    new: Vec<Arc<RemoteSession>>,
    gone: Vec<Arc<RemoteSession>>,
}

impl Remotes {
    pub(crate) fn new(config: &Config, health: Health) -> Remotes {
        Remotes {
            daemons: Mutex::default(),
            foreign: Mutex::default(),
            followers: watch_channel::Sender::new(0),
            health,
            dir: config.state_dir.join("remote"),
            grants: config.state_dir.join("runtimes"),
        }
    }

    /// The daemon that a runtime's name stands for; `None` if it stands for something else.
    pub(crate) fn find(&self, config: &Config, asked: &str) -> Option<Result<Arc<RemoteDaemon>, Fault>> {
        let access = match config.runtimes.iter().find(|named| named.name == asked) {
            Some(named) => of_named(config, named)?,
            None if asked.starts_with(PREFIX) => of_written(config, asked),
            None => {
                let file = self.grant_file(asked)?;
                let by = Grant::read(&file).map(|grant| grant.granted_by).unwrap_or_default();
                Ok(Access::Granted { file, by })
            }
        };
        Some(access.map(|access| self.get(asked, access)))
    }

    fn get(&self, name: &str, access: Access) -> Arc<RemoteDaemon> {
        let mut daemons = self.daemons.lock().unwrap_or_else(PoisonError::into_inner);
        let made =
            || Arc::new(RemoteDaemon::new(name, access, &self.health, self.dir_of(name).join("sessions")));
        Arc::clone(daemons.entry(name.to_owned()).or_insert_with(made))
    }

    /// Those that are configured, granted or in use.
    fn all(&self, config: &Config) -> Vec<Arc<RemoteDaemon>> {
        let configured = config.runtimes.iter().map(|named| named.name.clone());
        let known = configured.chain(self.granted()).filter_map(|name| self.find(config, &name)?.ok());
        let mut all: Vec<Arc<RemoteDaemon>> = known.collect();
        for used in self.used(config) {
            if !all.iter().any(|daemon| daemon.name() == used.name()) {
                all.push(used);
            }
        }
        all
    }

    fn lock_foreign(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<RemoteSession>>> {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of somebody else that an id stands for. Names are not looked at: they are not ours.
    fn foreign(&self, named: &str) -> Option<Arc<RemoteSession>> {
        self.lock_foreign().get(&named.parse().ok()?).cloned()
    }

    fn foreign_on(&self, daemon: &str) -> Vec<Arc<RemoteSession>> {
        self.lock_foreign().values().filter(|session| session.daemon.name() == daemon).cloned().collect()
    }

    /// What is new and what is gone.
    fn set_foreign(&self, daemon: &Arc<RemoteDaemon>, there: Vec<SessionInfo>) -> ForeignChanges {
        let mut foreign = self.lock_foreign();
        let mut gone = Vec::new();
        foreign.retain(|id, session| {
            let is_there = there.iter().any(|info| info.session_id == *id);
            let is_kept = is_there || session.daemon.name() != daemon.name();
            if !is_kept {
                gone.push(Arc::clone(session));
            }
            is_kept
        });
        let mut new = Vec::new();
        for info in there {
            match foreign.entry(info.session_id) {
                Entry::Occupied(known) if known.get().daemon.name() == daemon.name() => {
                    known.get().learn(info);
                }
                // One daemon may have two names here.
                Entry::Occupied(_) => {}
                Entry::Vacant(place) => {
                    let session = Arc::new(RemoteSession::foreign(info, Arc::clone(daemon)));
                    new.push(Arc::clone(place.insert(session)));
                }
            }
        }
        ForeignChanges { new, gone }
    }

    fn forget_foreign(&self, id: SessionId) -> Option<Arc<RemoteSession>> {
        self.lock_foreign().remove(&id)
    }

    /// Those that were used, and are not named by the configuration.
    pub(crate) fn used(&self, config: &Config) -> Vec<Arc<RemoteDaemon>> {
        let daemons = self.daemons.lock().unwrap_or_else(PoisonError::into_inner);
        let is_named = |name: &str| config.runtimes.iter().any(|named| named.name == name);
        daemons.values().filter(|daemon| !is_named(daemon.name())).cloned().collect()
    }

    /// Names of the runtimes that other agents have granted.
    pub(crate) fn granted(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.grants).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .filter(|name| self.grant_file(name).is_some())
            .collect();
        names.sort_unstable();
        names
    }

    /// What is known of a grant by that name.
    pub(crate) fn grant(&self, name: &str) -> Option<Grant> {
        Grant::read(&self.grant_file(name)?).ok()
    }

    fn grant_file(&self, name: &str) -> Option<PathBuf> {
        self.grant_path(name).filter(|file| file.is_file())
    }

    fn grant_path(&self, name: &str) -> Option<PathBuf> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        let fine = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain);
        fine.then(|| self.grants.join(format!("{name}.json")))
    }

    /// A daemon whose grant is over; nothing of it is left but that it was granted.
    fn formerly_granted(&self, name: &str, by: &str) -> Option<Arc<RemoteDaemon>> {
        let file = self.grant_path(name)?;
        Some(self.get(name, Access::Granted { file, by: by.to_owned() }))
    }

    fn dir_of(&self, name: &str) -> PathBuf {
        self.dir.join(crate::backends::key(name, &self.dir))
    }

    /// A session is about to be made there: the next daemon has to know, and who has granted it.
    fn remember(&self, daemon: &RemoteDaemon) {
        let dir = self.dir_of(daemon.name());
        let by = daemon.granted_by().unwrap_or_default();
        let written = create_dir(&dir)
            .and_then(|()| std::fs::write(dir.join(NAME), format!("{}\n{by}\n", daemon.name())));
        if let Err(error) = written {
            // The session works; only a daemon after this one would not find it.
            tracing::warn!(runtime = daemon.name(), %error, "a runtime could not be remembered");
        }
    }

    /// Removes the directories of those that have no session any more.
    pub(crate) fn tidy(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let dir = entry.path();
            // One with sessions in it is not empty.
            std::fs::remove_dir(dir.join("sessions")).ok();
            if !dir.join("sessions").exists() {
                std::fs::remove_file(dir.join(NAME)).ok();
                std::fs::remove_dir(&dir).ok();
            }
        }
        std::fs::remove_dir(&self.dir).ok();
    }
}

fn unusable(name: &str, problem: &str) -> Fault {
    let shown: String = name.chars().take(200).collect();
    Fault::new(Code::RuntimeUnavailable, format!("the runtime {shown:?} cannot be used: {problem}"))
        .with_details(serde_json::json!({ "runtime": shown }))
}

/// `None` if it is of another kind.
fn of_named(config: &Config, named: &NamedRuntime) -> Option<Result<Access, Fault>> {
    let written = named.target.strip_prefix(PREFIX)?;
    Some(match written.parse::<Address>() {
        Ok(address) => {
            let token_file = named.token_file.clone().unwrap_or_else(|| token_file(config, &address));
            Ok(Access::Files { address, token_file, ca: named.ca.clone() })
        }
        Err(error) => Err(unusable(&named.name, &error.to_string())),
    })
}

/// A token is used for the address that its file is named after, so that a request cannot have it sent elsewhere.
fn of_written(config: &Config, asked: &str) -> Result<Access, Fault> {
    let target = asked.strip_prefix(PREFIX).unwrap_or(asked);
    let named = config.runtimes.iter().find(|named| named.target == asked);
    if let Some(access) = named.and_then(|named| of_named(config, named)) {
        return access;
    }
    let address: Address = target.parse().map_err(|error| {
        Fault::invalid(format!("param `runtime`: {error}"))
            .with_details(serde_json::json!({ "field": "runtime", "runtime": target }))
    })?;
    Ok(Access::Files { token_file: token_file(config, &address), address, ca: None })
}

fn token_file(config: &Config, address: &Address) -> PathBuf {
    let dir = config.tokens_dir.as_deref().unwrap_or(Path::new("/nonexistent"));
    dir.join(address.authority())
}

/// Enters the sessions that an earlier daemon has made on others, as far as they are known here.
pub(crate) fn recall(runtime: &Arc<Inner>) {
    let entries = std::fs::read_dir(&runtime.remotes.dir).into_iter().flatten().flatten();
    let records: Vec<String> =
        entries.filter_map(|entry| std::fs::read_to_string(entry.path().join(NAME)).ok()).collect();
    for record in records {
        let mut lines = record.lines();
        let (name, granted_by) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let found = runtime.remotes.find(&runtime.config, name).or_else(|| match granted_by {
            "" => None,
            // Its sessions end here as soon as it is looked at, with whoever has ended the grant.
            by => runtime.remotes.formerly_granted(name, by).map(Ok),
        });
        match found {
            Some(Ok(daemon)) => {
                for info in daemon.remembered() {
                    runtime.registry.recall_remote(Arc::new(RemoteSession::new(info, Arc::clone(&daemon))));
                }
                watch::begin(runtime, &daemon);
            }
            Some(Err(fault)) => {
                tracing::warn!(runtime = name, message = %fault.message, "a runtime is of no use now")
            }
            None => {
                tracing::warn!(runtime = name, "a runtime is no longer known; its sessions are left alone")
            }
        }
    }
}
