//! The search for what an ended daemon should have taken with it.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::process;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Pid and arguments.
    pub processes: Vec<(i32, Vec<String>)>,
    /// Sockets and FIFOs.
    pub endpoints: Vec<PathBuf>,
    /// Files of sessions: their id is in the path.
    pub session_files: Vec<PathBuf>,
}

impl Leftovers {
    pub(crate) fn find(processes: Vec<i32>, directories: &[PathBuf], socket: &Path) -> Leftovers {
        let mut found = Leftovers {
            processes: processes.into_iter().map(|pid| (pid, process::arguments(pid))).collect(),
            ..Leftovers::default()
        };
        if socket.symlink_metadata().is_ok() {
            found.endpoints.push(socket.to_owned());
        }
        for directory in directories {
            found.search(directory, directory);
        }
        found
    }

    pub fn is_empty(&self) -> bool {
        *self == Leftovers::default()
    }

    fn search(&mut self, root: &Path, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_socket() || kind.is_fifo() {
                self.endpoints.push(path.clone());
            }
            if names_a_session(path.strip_prefix(root).unwrap_or(&path)) {
                self.session_files.push(path.clone());
            }
            if kind.is_dir() {
                self.search(root, &path);
            }
        }
    }
}

fn names_a_session(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.match_indices("s-").any(|(at, _)| {
        let digits = text[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        digits == 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_fifos_and_session_files_are_found_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let session = dir.path().join("state/s-00c0ffee");
        fs::create_dir_all(&session).unwrap();
        fs::write(dir.path().join("state/daemon.log"), "fine").unwrap();
        let socket = dir.path().join("a.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let found = Leftovers::find(vec![], &[dir.path().to_owned()], Path::new("/nonexistent"));
        assert_eq!(found.endpoints, [socket]);
        assert_eq!(found.session_files, [session]);
        assert!(!found.is_empty());
        assert!(Leftovers::find(vec![], &[], Path::new("/nonexistent")).is_empty());
    }
}
