//! Where daemons find this host: its socket, made again when somebody has removed it.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::Host;
use crate::rare::{RareSource, RareSources};

impl Host {
    /// A daemon is gone. The next one looks for the socket on disk, which may have been removed.
    pub(super) fn ensure_listening(&mut self) {
        let path = Path::new(&self.spec.socket);
        let is_listening = self.kernel.listener.is_some();
        if self.shutdown.has_begun() || !is_listening || path.symlink_metadata().is_ok() {
            return;
        }
        if let Some(dir) = path.parent() {
            // Without the directory the socket cannot be bound either.
            trl_sys::private::create_dir(dir).ok();
        }
        // If it cannot be made, it is tried again when the next daemon is gone.
        if let Ok(listener) = listen_watched(&self.spec.socket, &self.kernel.rare) {
            self.forget_listener();
            self.kernel.listener = Some(listener);
        }
        self.save_session();
    }

    fn forget_listener(&mut self) {
        if let Some(listener) = self.kernel.listener.take() {
            self.kernel.rare.remove(&listener);
        }
    }

    pub(super) fn close_listener(&mut self) {
        self.forget_listener();
        // Whoever removed it first did the same.
        std::fs::remove_file(&self.spec.socket).ok();
    }
}

/// Makes the socket, and watches it. One that cannot be watched would hear nobody, so it is removed again.
pub(super) fn listen_watched(path: &str, rare: &RareSources) -> io::Result<UnixListener> {
    let listener = trl_sys::private::listen(Path::new(path))?;
    listener.set_nonblocking(true)?;
    rare.add(RareSource::Listener, &listener).inspect_err(|_| {
        std::fs::remove_file(path).ok();
    })?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_cannot_be_watched_is_not_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let path = path.to_str().unwrap();
        assert!(listen_watched(path, &RareSources::broken()).is_err());
        assert!(!Path::new(path).exists());
        let listener = listen_watched(path, &RareSources::new().unwrap()).unwrap();
        assert!(Path::new(path).exists());
        drop(listener);
    }
}
