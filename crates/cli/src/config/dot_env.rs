//! `.env` in the working directory. It is read, never put into this process's environment,
//! so what is in it does not leak into sessions.

use std::io;
use std::path::Path;

use super::ConfigError;
use super::keys::Key;
use super::layers::{Origin, Said};

pub(super) fn read(cwd: &Path) -> Result<Vec<(Key, Said)>, ConfigError> {
    let path = cwd.join(".env");
    let bad = |problem: String| ConfigError::File { path: path.clone(), problem };
    let pairs = match dotenvy::from_path_iter(&path) {
        Ok(pairs) => pairs,
        Err(dotenvy::Error::Io(error)) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let mut found = Vec::new();
    for pair in pairs {
        // The file is usually another program's: a line that we cannot read is only
        // our business if it is about us.
        let (name, text) = match pair {
            Ok(pair) => pair,
            Err(dotenvy::Error::LineParse(line, _)) if !line.trim_start().starts_with("TRL_") => continue,
            Err(error) => return Err(bad(error.to_string())),
        };
        if let Some(key) = Key::ALL.iter().find(|key| key.env() == name).filter(|_| !text.is_empty()) {
            found.push((*key, Said { text, origin: Origin::DotEnv(path.clone(), key.env()) }));
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
