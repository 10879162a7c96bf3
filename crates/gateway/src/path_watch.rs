//! Tells when a file may have been removed or moved away.

use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
pub(crate) use linux::PathWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::os::fd::OwnedFd;

    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::{Path, io};

    #[derive(Debug)]
    pub(crate) struct PathWatch(AsyncFd<OwnedFd>);

    impl PathWatch {
        pub(crate) fn new(path: &Path) -> io::Result<PathWatch> {
            let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            // A socket that listens is kept by its listener: that its name is gone shows in its attributes.
            let changes = WatchFlags::ATTRIB | WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
            inotify::add_watch(&watch, path, changes)?;
            // SAFETY: the descriptor is owned by what is registered, and closed only after it.
            let watched = unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) };
            watched.map(PathWatch).map_err(|error| error.into_parts().1)
        }

        /// Resolves when the path may have changed since the last call.
        pub(crate) async fn changed(&self) {
            let Ok(mut ready) = self.0.readable().await else { return std::future::pending().await };
            let mut events = [0_u8; 1024];
            while matches!(rustix::io::read(&self.0, &mut events), Ok(1..)) {}
            ready.clear_ready();
        }
    }
}

/// Other systems have no such notification.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct PathWatch;

#[cfg(not(target_os = "linux"))]
impl PathWatch {
    pub(crate) fn new(_path: &Path) -> io::Result<PathWatch> {
        Ok(PathWatch)
    }

    pub(crate) async fn changed(&self) {
        std::future::pending().await
    }
}
