//! Whether anyone still reads what we write: a program that waits ends with the one that started it.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};

/// Resolves when the other end of this pipe, socket or terminal is closed. Never for a file.
pub(crate) async fn reader_gone(output: impl AsFd + Send + 'static) {
    // Tokio does not watch for the end of a descriptor that is only written to; a thread of its own does.
    let waited = tokio::task::spawn_blocking(move || {
        loop {
            let mut watched = [PollFd::new(&output, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) if !watched[0].revents().is_empty() => return true,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    });
    if !waited.await.unwrap_or(false) {
        std::future::pending::<()>().await;
    }
}
