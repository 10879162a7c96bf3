//! Secrets are read from files that nobody else can read, and from nowhere else.

use std::path::{Path, PathBuf};

use trl_sys::private::{SecretError, read_secret};
use zeroize::Zeroizing;

/// No credential is longer.
const MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum BadSecret {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "{} has mode {mode:04o}: others could read the secret in it; `chmod 600` it, and replace it if they may have",
        path.display()
    )]
    Open { path: PathBuf, mode: u32 },
    #[error("{} belongs to another user (uid {owner}); a secret must be this user's own file", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error("{} is not a regular file of at most 64 KiB", path.display())]
    Shape { path: PathBuf },
    #[error("{} holds no key: expected a user's seed (SU…) or a .creds file", path.display())]
    Content { path: PathBuf },
}

/// The file's text, if the file is private.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<String>, BadSecret> {
    let path_buf = || path.to_owned();
    let mut text = Zeroizing::new(String::new());
    match read_secret(path, MAX_BYTES, &mut text) {
        Ok(()) => Ok(text),
        Err(SecretError::Io(source)) => Err(BadSecret::Io { path: path_buf(), source }),
        Err(SecretError::Shape { .. }) => Err(BadSecret::Shape { path: path_buf() }),
        Err(SecretError::Open { mode }) => Err(BadSecret::Open { path: path_buf(), mode }),
        Err(SecretError::Foreign { owner, .. }) => Err(BadSecret::Foreign { path: path_buf(), owner }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn only_private_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "SUX").unwrap();
        for (mode, fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o660, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = read(&path);
            assert_eq!(read.is_ok(), fine, "{mode:o}: {read:?}");
            if let Err(bad) = read {
                let told = bad.to_string();
                assert!(told.contains("chmod 600") && told.contains(&format!("{mode:04o}")), "{told}");
            }
        }
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(matches!(super::read(&pipe), Err(BadSecret::Shape { .. })));
        assert!(matches!(super::read(dir.path()), Err(BadSecret::Shape { .. } | BadSecret::Io { .. })));
    }
}
