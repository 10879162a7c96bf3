//! Settings from a `.env` file. The file is read, never put into this process's environment,
//! so nothing in it leaks into sessions.
//!
//! Only a daemon in the foreground reads one. A client, or a daemon that a client starts on
//! demand, never does: the working directory is often a project of somebody else.

use std::io;
use std::path::{Path, PathBuf};

use super::ConfigError;
use super::keys::{Key, Reach};
use super::layers::{Origin, SettingText};

/// Which `.env` file this process reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum EnvFile {
    #[default]
    Unread,
    /// `.env` in the working directory, if there is one, without the settings that reach outside.
    InWorkingDir,
    /// The file that a flag names, with all its settings.
    Named(PathBuf),
}

/// What a `.env` file said.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) settings: Vec<(Key, SettingText)>,
    pub(super) ignored: Option<Ignored>,
}

/// Settings that a `.env` file in the working directory is not trusted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ignored {
    path: PathBuf,
    names: Vec<&'static str>,
}

impl std::fmt::Display for Ignored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, names) = (self.path.display(), self.names.join(", "));
        write!(f, "ignored in {path}: {names}; `trl serve --env-file {path}` applies every setting in it")
    }
}

pub(super) fn read(file: &EnvFile, cwd: &Path) -> Result<Found, ConfigError> {
    match file {
        EnvFile::Unread => Ok(Found::default()),
        EnvFile::Named(path) => Ok(Found { settings: settings(&cwd.join(path), true)?, ignored: None }),
        EnvFile::InWorkingDir => {
            let path = cwd.join(".env");
            // To open a pipe would wait until somebody writes to it.
            if path.metadata().is_ok_and(|meta| !meta.is_file()) {
                return Ok(Found::default());
            }
            let (settings, outside): (Vec<_>, Vec<_>) =
                settings(&path, false)?.into_iter().partition(|(key, _)| key.reach() == Reach::Inside);
            let names: Vec<_> = outside.iter().map(|(key, _)| key.env()).collect();
            let ignored = (!names.is_empty()).then_some(Ignored { path, names });
            Ok(Found { settings, ignored })
        }
    }
}

fn settings(path: &Path, must_exist: bool) -> Result<Vec<(Key, SettingText)>, ConfigError> {
    let bad = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let pairs = match dotenvy::from_path_iter(path) {
        Ok(pairs) => pairs,
        Err(dotenvy::Error::Io(error)) if !must_exist && is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let mut found: Vec<(Key, SettingText)> = Vec::new();
    for pair in pairs {
        // The file is usually another program's: a line that cannot be read only matters
        // if it is about one of our settings.
        let (name, text) = match pair {
            Ok(pair) => pair,
            Err(dotenvy::Error::LineParse(line, _)) if !line.trim_start().starts_with("TRL_") => continue,
            Err(error) => return Err(bad(error.to_string())),
        };
        let known = Key::ALL.iter().copied().find(|key| key.env() == name).filter(|_| !text.is_empty());
        if let Some(key) = known.filter(|key| found.iter().all(|(earlier, _)| earlier != key)) {
            found.push((key, SettingText { text, origin: Origin::DotEnv(path.to_owned(), key.env()) }));
        }
    }
    Ok(found)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To open it would wait for whoever writes.
    #[test]
    fn a_pipe_of_that_name_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.path().join(".env")).status().unwrap();
        assert!(made.success());
        let found = read(&EnvFile::InWorkingDir, dir.path()).unwrap();
        assert!(found.settings.is_empty() && found.ignored.is_none());
    }
}
