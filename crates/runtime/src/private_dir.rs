//! Directories that only their owner may enter.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum DirError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path} belongs to user {owner}, not to this one ({me}); choose another directory with TRL_HOME")]
    NotOurs { path: PathBuf, owner: u32, me: u32 },
    #[error("{path} is no directory")]
    NoDirectory { path: PathBuf },
}

/// Makes the directory, or makes sure that an existing one is ours and closed to others.
pub fn make_private(path: &Path) -> Result<(), DirError> {
    let failed = |error| DirError::Io { path: path.to_owned(), error };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let me = rustix::process::geteuid().as_raw();
    // The entry itself counts too: in a directory open to all, a link made by somebody
    // else could lead us to close or fill a directory of our own.
    let entry = path.symlink_metadata().map_err(failed)?;
    let target = path.metadata().map_err(failed)?;
    for meta in [&entry, &target] {
        if meta.uid() != me {
            return Err(DirError::NotOurs { path: path.to_owned(), owner: meta.uid(), me });
        }
    }
    if !target.is_dir() {
        return Err(DirError::NoDirectory { path: path.to_owned() });
    }
    if target.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_closed_and_closed_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        make_private(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        make_private(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(make_private(&file).is_err());
    }
}
