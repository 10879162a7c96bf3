//! `session.json`: all that is needed to begin a session again when its host is gone.
//!
//! It holds the values of the session's environment, so it is for its owner alone. The host
//! writes it anew whenever the shell's state has changed, after the reply and as a whole; the
//! daemon reads it when the host is gone, and a new host when the session is restarted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use trl_protocol::session::SessionInfo;
use trl_protocol::wire::SessionSpec;

use crate::moment::Moment;
use crate::recover::KeptExec;

/// Raised when an older version could not make sense of the file.
const VERSION: u32 = 1;
const NAME: &str = "session.json";

/// `State` is what the shell printed of itself; only a host reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionFile<State = IgnoredAny> {
    version: u32,
    pub spec: SessionSpec,
    pub info: SessionInfo,
    pub state: State,
    /// None in a file of an older version.
    #[serde(default)]
    pub written: Option<Moment>,
}

/// Which commands came after the file was written: they are in the journal only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// Commands from this number on came later.
    pub next_number: u64,
    /// Commands before it that had not run by then.
    pub waiting: BTreeSet<u64>,
}

impl Since {
    /// How many have run since. What is no longer kept has run.
    pub fn commands(&self, kept: &BTreeMap<u64, KeptExec>) -> u64 {
        let has_run = |number: &u64| kept.get(number).is_none_or(KeptExec::has_run);
        let end = kept.keys().next_back().map_or(0, |last| last + 1);
        let later = (self.next_number..end).filter(has_run).count();
        (later + self.waiting.iter().filter(|number| has_run(number)).count()) as u64
    }
}

impl<State> SessionFile<State> {
    pub fn new(spec: SessionSpec, info: SessionInfo, state: State) -> SessionFile<State> {
        SessionFile { version: VERSION, spec, info, state, written: Some(Moment::now()) }
    }
}

impl<State: Serialize> SessionFile<State> {
    /// Replaces the file in `dir`; a reader sees the old one or the new one.
    /// `durable`: it is on the disk when this returns.
    pub fn write(&self, dir: &Path, durable: bool) -> io::Result<()> {
        trl_sys::private::create_dir(dir)?;
        self.write_as(&dir.join(NAME), durable)
    }

    /// The same at another place.
    pub fn write_as(&self, path: &Path, durable: bool) -> io::Result<()> {
        let fresh = path.with_extension("json.new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        file.write_all(&text)?;
        if durable {
            file.sync_data()?;
        }
        std::fs::rename(fresh, path)?;
        if let (true, Some(dir)) = (durable, path.parent()) {
            crate::log::sync_dir(dir);
        }
        Ok(())
    }
}

impl<State: DeserializeOwned> SessionFile<State> {
    pub fn read(dir: &Path) -> io::Result<SessionFile<State>> {
        SessionFile::read_from(&dir.join(NAME))
    }

    /// The same from another place.
    pub fn read_from(path: &Path) -> io::Result<SessionFile<State>> {
        let file = File::open(path)?;
        let read: SessionFile<State> = serde_json::from_reader(io::BufReader::new(file))?;
        if read.version > VERSION {
            let newer = format!("{NAME} is of version {}, newer than {VERSION}", read.version);
            return Err(io::Error::new(io::ErrorKind::Unsupported, newer));
        }
        Ok(read)
    }
}

/// The session is over for good: what is left of it is not to be begun again.
pub fn forget_session(dir: &Path) {
    // Already gone is as good as removed.
    std::fs::remove_file(dir.join(NAME)).ok();
}
