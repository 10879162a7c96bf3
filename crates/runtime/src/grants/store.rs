//! Grants on disk: one private file each, replaced as a whole.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use trl_sys::private::{file_options, make_private};

use super::Grant;

/// Of the files that this version writes and reads.
pub(super) const VERSION: u32 = 1;
/// How long a grant that is over is kept.
const KEPT_MS: i64 = 30 * 24 * 3600 * 1000;

#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(super) fn new(dir: PathBuf) -> Store {
        Store { dir }
    }

    /// Those that can be read. One that cannot is reported and left as it is: its token opens nothing.
    pub(super) fn read_all(&self, now: i64) -> Vec<Grant> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let mut grants = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let read = fs::read(&path).map_err(|error| error.to_string());
            match read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string())) {
                Ok(grant) if is_forgotten(&grant, now) => self.remove(&grant.id),
                Ok(grant) if grant.version == VERSION => grants.push(grant),
                Ok(grant) => tracing::warn!(version = grant.version, "a grant of another version is ignored"),
                Err(error) => tracing::warn!(error, path = %path.display(), "a grant cannot be read"),
            }
        }
        grants
    }

    /// Durable across a power cut.
    pub(super) fn write(&self, grant: &Grant) -> io::Result<()> {
        self.replace(grant, true)?;
        fs::File::open(&self.dir)?.sync_all()
    }

    /// Durable across the end of any process. That is enough for what ends with the machine, such as sessions.
    pub(super) fn write_soon(&self, grant: &Grant) -> io::Result<()> {
        self.replace(grant, false)
    }

    fn replace(&self, grant: &Grant, sync: bool) -> io::Result<()> {
        make_private(&self.dir).map_err(io::Error::other)?;
        let new = self.dir.join(format!("{}.new", grant.id));
        let mut file = file_options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(&serde_json::to_vec(grant).map_err(io::Error::other)?)?;
        if sync {
            file.sync_all()?;
        }
        fs::rename(new, self.dir.join(format!("{}.json", grant.id)))
    }

    pub(super) fn remove(&self, id: &str) {
        if let Err(error) = fs::remove_file(self.dir.join(format!("{id}.json"))) {
            tracing::warn!(%error, grant = id, "a grant could not be removed");
        }
    }
}

fn is_forgotten(grant: &Grant, now: i64) -> bool {
    grant.revoked_at.or(grant.expires_at).is_some_and(|end| end + KEPT_MS < now)
}
