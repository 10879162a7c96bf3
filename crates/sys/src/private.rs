//! Files, directories and sockets that only their owner can open.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum DirError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("{path} belongs to user {owner}, not to this one ({me}); choose another directory with TRL_HOME")]
    NotOurs { path: PathBuf, owner: u32, me: u32 },
    #[error("{path} is not a directory")]
    NoDirectory { path: PathBuf },
}

/// Makes a missing directory, and the missing ones above it, for this user only. One that exists is left as it
/// is, whoever owns it: see [`make_private`].
pub fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Options for making files that only this user can open; the caller adds how.
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes the directory, or makes sure that an existing one is ours and closed to others.
pub fn make_private(path: &Path) -> Result<(), DirError> {
    let failed = |error| DirError::Io { path: path.to_owned(), error };
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| dir.symlink_metadata().is_err()).collect();
    for dir in missing.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
        match DirBuilder::new().mode(0o700).create(dir) {
            // The umask may have removed our own access.
            Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let me = rustix::process::geteuid().as_raw();
    // The owner of the entry itself is checked too: in a directory that everybody can write, another user's
    // symbolic link could make us change the mode of, or write into, another directory of ours.
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
    // An unusual umask may also have removed our own access.
    if target.mode() & 0o777 != 0o700 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("is not a regular file of at most {most} bytes")]
    Shape { most: u64 },
    #[error("belongs to user {owner}, not to {me}")]
    Foreign { owner: u32, me: u32 },
    #[error("others can read it (mode {mode:04o}); `chmod 600` closes it")]
    Open { mode: u32 },
}

/// Opens a file with a secret in it, if nobody else can read it. The checks are made on the opened
/// file, so what was checked is what is read.
pub fn open_secret(path: &Path, most: u64) -> Result<File, SecretError> {
    // Without blocking: a pipe would wait until somebody writes to it.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > most {
        return Err(SecretError::Shape { most });
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(SecretError::Open { mode });
    }
    let me = rustix::process::geteuid().as_raw();
    if !crate::trust::is_ours(meta.uid(), me) {
        return Err(SecretError::Foreign { owner: meta.uid(), me });
    }
    Ok(file)
}

/// Appends the text of such a file to `text`, whose memory the caller may want to erase.
pub fn read_secret(path: &Path, most: u64, text: &mut String) -> Result<(), SecretError> {
    open_secret(path, most)?.take(most).read_to_string(text)?;
    Ok(())
}

/// A socket that nobody but this user can ever connect to. For programs with one thread: the mask for new files is
/// the whole program's.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    listener
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_directories_are_made_for_us_alone_and_secrets_may_have_their_full_length() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        create_dir(&inner).unwrap();
        for made in [&inner, &dir.path().join("a")] {
            assert_eq!(made.metadata().unwrap().mode() & 0o077, 0, "{}", made.display());
        }
        let secret = inner.join("secret");
        fs::write(&secret, "12345").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open_secret(&secret, 5).is_ok());
        assert!(matches!(open_secret(&secret, 4), Err(SecretError::Shape { most: 4 })));
    }

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

    #[test]
    fn a_mask_that_takes_away_our_own_access_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let before = rustix::process::umask(rustix::fs::Mode::RWXU);
        let made = make_private(&path);
        rustix::process::umask(before);
        made.unwrap();
        for dir in [&*path, path.parent().unwrap()] {
            assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700, "{}", dir.display());
        }
    }

    #[test]
    fn only_private_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "SUX").unwrap();
        let read = |path: &Path| {
            let mut text = String::new();
            read_secret(path, 64, &mut text).map(|()| text)
        };
        // Who can write it could choose the secret.
        let open = [0o640, 0o604, 0o660, 0o620, 0o602].map(|mode| (mode, false));
        for (mode, fine) in [(0o600, true), (0o400, true)].into_iter().chain(open) {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = read(&path);
            assert_eq!(read.is_ok(), fine, "{mode:o}: {read:?}");
            if let Err(error) = read {
                let message = error.to_string();
                assert!(
                    message.contains("chmod 600") && message.contains(&format!("{mode:04o}")),
                    "{message}"
                );
            }
        }
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(matches!(read(&pipe), Err(SecretError::Shape { .. })));
        assert!(matches!(read(dir.path()), Err(SecretError::Shape { .. } | SecretError::Io(_))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "x".repeat(65)).unwrap();
        assert!(matches!(read(&path), Err(SecretError::Shape { most: 64 })));
    }
}
