//! What is remembered here of the sessions over there, so that a new daemon knows them before it has
//! reached the machine.

use std::io::{self, Write as _};
use std::path::PathBuf;

use trl_protocol::SessionId;
use trl_protocol::session::SessionInfo;
use trl_sys::private::{create_dir, file_options};

/// One file per session, with the session as it was when its host began.
#[derive(Debug)]
pub(crate) struct KnownSessions {
    dir: PathBuf,
}

impl KnownSessions {
    pub(crate) fn in_dir(dir: PathBuf) -> KnownSessions {
        KnownSessions { dir }
    }

    pub(crate) fn remember(&self, info: &SessionInfo) {
        if let Err(error) = self.write(info) {
            // The session works; a daemon after this one finds it when it has reached the machine.
            tracing::warn!(session = %info.session_id, %error, "a session elsewhere could not be remembered");
        }
    }

    fn write(&self, info: &SessionInfo) -> io::Result<()> {
        create_dir(&self.dir)?;
        let (path, new) = (self.path(info.session_id), self.dir.join(format!(".{}", info.session_id)));
        let mut file = file_options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(&serde_json::to_vec(info)?)?;
        std::fs::rename(new, path)
    }

    pub(crate) fn forget(&self, id: SessionId) {
        match std::fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(session = %id, %error, "a session elsewhere could not be forgotten");
            }
            _ => {}
        }
    }

    /// Those whose files can be read; the others are found when the machine is reached.
    pub(crate) fn all(&self) -> Vec<SessionInfo> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let is_session = |entry: &std::fs::DirEntry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<SessionId>().is_ok())
        };
        entries
            .filter(is_session)
            .filter_map(|entry| serde_json::from_slice(&std::fs::read(entry.path()).ok()?).ok())
            .collect()
    }

    fn path(&self, id: SessionId) -> PathBuf {
        self.dir.join(id.to_string())
    }
}
