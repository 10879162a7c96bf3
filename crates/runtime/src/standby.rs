//! The host of the next session, started before anybody asks for one.
//!
//! A host has to be loaded and to get its keeper before it can take a session, which takes
//! longer than the shell itself needs to start. So while there are sessions, and a moment
//! longer, a host without one stands by. It ends when its connection does, whatever the daemon dies of.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::Child;

/// How long a host that has no session may take to end.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// A host process that has not been given a session yet.
#[derive(Debug)]
pub(crate) struct Blank {
    pub(crate) stream: UnixStream,
    pub(crate) child: Child,
}

impl Blank {
    /// It has nothing to lose: without a connection it ends, or is ended.
    async fn dismiss(self) {
        drop(self.stream);
        let ended = end(self.child).await;
        tracing::debug!(?ended, "the host that stood by ended");
    }
}

/// Waits for the end of a host whose connection is closed.
pub(crate) async fn end(mut child: Child) -> io::Result<()> {
    match tokio::time::timeout(LAST_WORDS, child.wait()).await {
        Ok(ended) => ended.map(drop),
        Err(_) => child.kill().await,
    }
}

#[derive(Debug, Default)]
pub(crate) struct Standby(Mutex<Post>);

#[derive(Debug, Default)]
enum Post {
    #[default]
    Vacant,
    Manned(Blank),
    /// The daemon ends: nobody is to stand by any more.
    Closed,
}

impl Standby {
    fn post(&self) -> MutexGuard<'_, Post> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host that stands by, if it is still alive.
    pub(crate) fn take(&self) -> Option<Blank> {
        let mut post = self.post();
        let Post::Manned(_) = &*post else { return None };
        let Post::Manned(mut blank) = std::mem::take(&mut *post) else { return None };
        matches!(blank.child.try_wait(), Ok(None)).then_some(blank)
    }

    /// Has one stand by, if none does.
    pub(crate) fn fill(&self, start: impl FnOnce() -> io::Result<Blank>) {
        let mut post = self.post();
        if matches!(*post, Post::Vacant) {
            match start() {
                Ok(blank) => *post = Post::Manned(blank),
                // The next session tries again, and tells whoever asked for it.
                Err(error) => tracing::debug!(%error, "no host stands by"),
            }
        }
    }

    /// Ends the one that stands by.
    pub(crate) async fn vacate(&self) {
        if let Some(blank) = self.take() {
            blank.dismiss().await;
        }
    }

    /// Ends the one that stands by; there is no other after it.
    pub(crate) async fn close(&self) {
        let before = std::mem::replace(&mut *self.post(), Post::Closed);
        if let Post::Manned(blank) = before {
            blank.dismiss().await;
        }
    }
}
