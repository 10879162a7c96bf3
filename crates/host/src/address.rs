//! Where daemons find this host: its socket, made again when somebody has removed it.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::host::Host;

impl Host {
    /// A daemon is gone. The next one looks for us on disk, whatever was removed there meanwhile.
    pub(crate) fn be_found(&mut self) {
        let path = Path::new(&self.spec.socket);
        if self.ending.is_some() || self.listener.is_none() || path.symlink_metadata().is_ok() {
            return;
        }
        if let Some(dir) = path.parent() {
            // If it cannot be made, it cannot be listened there either.
            trl_sys::private::create_dir(dir).ok();
        }
        if let Ok(listener) = listen(&self.spec.socket) {
            self.listener = Some(listener);
        }
        self.keep_session();
    }
}

/// Binds the socket so that nobody but this user can ever connect.
pub(crate) fn listen(path: &str) -> io::Result<UnixListener> {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
