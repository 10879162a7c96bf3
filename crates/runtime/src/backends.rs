//! Which backend a runtime's name stands for, and which of them this daemon uses.
//!
//! `local` is always there. Others are made when a session first asks for them, or when a
//! daemon starts and finds that an earlier one used them: each has a directory of its own
//! with its name in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use trl_protocol::request::nearest;
use trl_protocol::{Code, Fault};
use trl_sys::private::create_dir;

use crate::backend::{Backend, Container, ContainerPlace, Ssh};
use crate::config::{Config, NamedRuntime};

/// The file with a runtime's name, in its directory.
const NAME: &str = "name";

/// What a request may say instead of a name.
const FORMS: &str = "local, container:IMAGE, container:@NAME, ssh:[USER@]HOST[:PORT], trl:https://HOST:PORT, or a name from the configuration";

#[derive(Debug)]
pub(crate) struct Backends {
    default: Arc<dyn Backend>,
    others: Mutex<Vec<Arc<dyn Backend>>>,
    /// The directories of those that are made on demand, below the daemon's own.
    runtime_dir: PathBuf,
    state_dir: PathBuf,
}

impl Backends {
    pub(crate) fn new(config: &Config, default: Arc<dyn Backend>, others: Vec<Arc<dyn Backend>>) -> Backends {
        Backends {
            default,
            others: Mutex::new(others),
            runtime_dir: config.runtime_dir.join("far"),
            state_dir: config.state_dir.join("far"),
        }
    }

    pub(crate) fn default(&self) -> &Arc<dyn Backend> {
        &self.default
    }

    pub(crate) fn all(&self) -> Vec<Arc<dyn Backend>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.default).chain(others.iter()).cloned().collect()
    }

    /// The backend of a runtime that a request names.
    /// `others`: names of runtimes that are not backends, for the message about an unknown one.
    pub(crate) fn find(
        &self,
        config: &Config,
        asked: &str,
        others: &[String],
    ) -> Result<Arc<dyn Backend>, Fault> {
        let target =
            config.runtimes.iter().find(|named| named.name == asked).map_or(asked, |named| &named.target);
        if let Some(known) = self.all().into_iter().find(|backend| backend.name() == target) {
            return Ok(known);
        }
        let made = self.make(config, target).ok_or_else(|| unknown(asked, &config.runtimes, others))??;
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        // Another request may have made it meanwhile.
        if let Some(known) = others.iter().find(|backend| backend.name() == target) {
            return Ok(Arc::clone(known));
        }
        others.push(Arc::clone(&made));
        Ok(made)
    }

    /// `None` if the name is of no known form.
    fn make(&self, config: &Config, target: &str) -> Option<Result<Arc<dyn Backend>, Fault>> {
        let (kind, rest) = target.split_once(':')?;
        let key = key(target, &self.state_dir);
        let dir = self.state_dir.join(&key);
        let made: Result<Arc<dyn Backend>, String> = match kind {
            "container" if !rest.is_empty() && !rest.starts_with(['-', '@']) => {
                let place = ContainerPlace {
                    image: rest.to_owned(),
                    hosts: self.runtime_dir.join(&key),
                    sessions: dir.join("sessions"),
                };
                Container::new(config, place)
                    .map(|container| Arc::new(container) as Arc<dyn Backend>)
                    .map_err(|error| error.to_string())
            }
            "container" if rest.starts_with('@') => {
                let container = Ssh::in_container(config, &rest[1..], key, dir)?;
                Ok(Arc::new(container) as Arc<dyn Backend>)
            }
            "ssh" => {
                let ssh = Ssh::new(config, rest, key, dir)?;
                Ok(Arc::new(ssh) as Arc<dyn Backend>)
            }
            _ => return None,
        };
        Some(made.map_err(|problem| {
            Fault::new(Code::RuntimeUnavailable, format!("the runtime {target:?} cannot be used: {problem}"))
        }))
    }

    /// A session is about to run there: the next daemon has to know.
    pub(crate) fn remember(&self, backend: &dyn Backend) {
        if backend.name() == self.default.name() {
            return;
        }
        let dir = self.state_dir.join(key(backend.name(), &self.state_dir));
        let written =
            create_dir(&dir).and_then(|()| std::fs::write(dir.join(NAME), format!("{}\n", backend.name())));
        if let Err(error) = written {
            // The session works; only a daemon after this one would not find it.
            tracing::warn!(runtime = backend.name(), %error, "a runtime could not be remembered");
        }
    }

    /// Removes the directories of those that have no session any more.
    pub(crate) fn tidy(&self) {
        for backend in self.all().into_iter().skip(1) {
            let key = key(backend.name(), &self.state_dir);
            let dir = self.state_dir.join(&key);
            let is_empty =
                |path: &Path| std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
            let kept =
                [dir.join("sessions"), dir.join("copies"), dir.join("known"), self.runtime_dir.join(&key)];
            if kept.iter().all(|path| is_empty(path)) {
                for path in &kept {
                    // One that does not exist need not be removed.
                    std::fs::remove_dir(path).ok();
                }
                std::fs::remove_file(dir.join(NAME)).ok();
                std::fs::remove_dir(&dir).ok();
            }
        }
        for dir in [&self.state_dir, &self.runtime_dir] {
            // Those that are still in use are not empty.
            std::fs::remove_dir(dir).ok();
        }
    }

    /// Makes those that an earlier daemon used.
    pub(crate) fn recall(&self, config: &Config) -> Vec<Arc<dyn Backend>> {
        let entries = std::fs::read_dir(&self.state_dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join(NAME)).ok());
        let mut recalled = Vec::new();
        for name in names.collect::<Vec<_>>() {
            match self.find(config, name.trim_end(), &[]) {
                Ok(backend) => recalled.push(backend),
                Err(fault) => {
                    tracing::warn!(runtime = name, message = %fault.message, "a runtime is of no use now")
                }
            }
        }
        recalled
    }
}

/// Short enough for the path of a socket; different for each runtime and daemon.
pub(crate) fn key(target: &str, state_dir: &Path) -> String {
    let mut hasher = Sha256::new();
    hasher.update(target);
    hasher.update([0]);
    hasher.update(state_dir.as_os_str().as_encoded_bytes());
    hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn unknown(asked: &str, named: &[NamedRuntime], others: &[String]) -> Fault {
    let shown: String = asked.chars().take(200).collect();
    let known = named.iter().map(|named| named.name.as_str());
    let known = known.chain(others.iter().map(String::as_str)).chain(["local"]);
    let hint = match nearest(asked, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("known forms: {FORMS}; system.runtimes lists the names"),
    };
    Fault::new(Code::RuntimeNotFound, format!("there is no runtime {shown:?}; {hint}"))
        .with_details(serde_json::json!({ "runtime": shown }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Local;

    fn backends() -> (tempfile::TempDir, Config, Backends) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(dir.path().join("r"), dir.path().join("s"), "/nowhere".into());
        config.runtimes = vec![NamedRuntime {
            name: "build1".into(),
            target: "ssh:me@build1".into(),
            labels: Vec::new(),
            max_sessions: None,
            isolation: None,
            mounts: Vec::new(),
            token_file: None,
            ca: None,
        }];
        let local: Arc<dyn Backend> = Arc::new(Local::at(&config));
        let backends = Backends::new(&config, local, Vec::new());
        (dir, config, backends)
    }

    #[test]
    fn names_and_forms_stand_for_one_backend_each() {
        let (_dir, config, backends) = backends();
        for (asked, name) in [
            ("local", "local"),
            ("build1", "ssh:me@build1"),
            ("ssh:me@build1", "ssh:me@build1"),
            ("container:img:tag", "container:img:tag"),
            ("container:@living", "container:@living"),
        ] {
            let found = backends.find(&config, asked, &[]).unwrap();
            assert_eq!(found.name(), name);
            let shown = if name == "ssh:me@build1" { "build1" } else { name };
            assert_eq!(found.display_name(), shown);
        }
        assert_eq!(backends.all().len(), 4);
        for backend in backends.all() {
            backends.remember(&*backend);
        }
        let local: Arc<dyn Backend> = Arc::new(Local::at(&config));
        let next = Backends::new(&config, local, Vec::new());
        assert_eq!(next.recall(&config).len(), 3, "the next daemon knows which were used");
        next.tidy();
        assert!(!config.state_dir.join("far").exists() && !config.runtime_dir.join("far").exists());
    }

    #[test]
    fn what_is_no_runtime_gets_the_nearest_name() {
        let (_dir, config, backends) = backends();
        for (asked, hint) in [
            ("biuld1", "\"build1\""),
            ("lokal", "\"local\""),
            ("", "known forms"),
            ("container:", "known forms"),
            ("container:--privileged", "known forms"),
            ("container:@--privileged", "known forms"),
            ("ssh:-oProxyCommand=x", "known forms"),
            ("docker:x", "known forms"),
        ] {
            let fault = backends.find(&config, asked, &[]).unwrap_err();
            assert_eq!(fault.code, Code::RuntimeNotFound, "{asked}");
            assert!(fault.message.contains(hint), "{}", fault.message);
        }
    }
}
