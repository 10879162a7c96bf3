//! Whose daemon it is: a file beside the socket names the directory in which the daemon keeps its state.
//!
//! Without `XDG_RUNTIME_DIR`, every process of a user finds the same socket, whatever its `HOME` is. A
//! client compares the mark with its own state directory before it sends anything, so that it does
//! not use a daemon that was started for another home. The daemon writes the mark before it listens.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use trl_sys::private::file_options;

const NAME: &str = "state-dir";

fn mark_of(socket: &Path) -> Option<PathBuf> {
    Some(socket.parent()?.join(NAME))
}

/// The state directory of the daemon at this socket, if it is marked and is not `ours`.
pub fn of_another(socket: &Path, ours: &Path) -> Option<PathBuf> {
    let theirs = PathBuf::from(OsString::from_vec(fs::read(mark_of(socket)?).ok()?));
    // Two paths of one directory are one home.
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    (resolved(&theirs) != resolved(ours)).then_some(theirs)
}

/// Written whole or not at all, since clients may read it at any time.
pub fn write(socket: &Path, state_dir: &Path) -> io::Result<()> {
    let Some(mark) = mark_of(socket) else { return Ok(()) };
    let new = mark.with_extension("new");
    let mut file = file_options().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(state_dir.as_os_str().as_bytes())?;
    fs::rename(&new, &mark)
}

/// The daemon has ended, and left no session.
pub fn remove(socket: &Path) -> io::Result<()> {
    match mark_of(socket).map(fs::remove_file) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_home_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, ours, theirs) =
            (dir.path().join("trl.sock"), dir.path().join("ours"), dir.path().join("theirs"));
        assert_eq!(of_another(&socket, &ours), None, "an older daemon leaves no mark");
        write(&socket, &theirs).unwrap();
        assert_eq!(of_another(&socket, &ours), Some(theirs.clone()));
        assert_eq!(of_another(&socket, &theirs), None);
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink(&theirs, &ours).unwrap();
        assert_eq!(of_another(&socket, &ours), None, "the same directory by another name");
        remove(&socket).unwrap();
        remove(&socket).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left");
    }
}
