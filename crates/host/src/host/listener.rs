//! Where daemons find this host: its socket, made again when somebody has removed it.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::Host;
use crate::rare::RareSource;

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
        if let Ok(listener) = listen(&self.spec.socket) {
            self.forget_listener();
            // Without a descriptor for it, nobody would be heard: as if it could not be made.
            if self.kernel.rare.add(RareSource::Listener, &listener).is_ok() {
                self.kernel.listener = Some(listener);
            }
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

/// Binds the socket so that nobody but this user can ever connect.
pub(super) fn listen(path: &str) -> io::Result<UnixListener> {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
