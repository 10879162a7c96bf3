//! Work that waits for the disk or for processes, on a thread of its own.
//!
//! A machine that has no thread left for it is an error like any other: the event loop's own
//! pool would end the daemon over it.

use std::io;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (answer, answered) = oneshot::channel();
    let event_loop = Handle::current();
    std::thread::Builder::new().name("aside".to_owned()).spawn(move || {
        let _within = event_loop.enter();
        // Whoever asked may have left.
        let _ = answer.send(work());
    })?;
    answered.await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_result_comes_back_and_a_failure_is_told() {
        assert_eq!(aside(|| 6 * 7).await.unwrap(), 42);
        assert!(aside(|| Handle::try_current().is_ok()).await.unwrap());
        assert!(aside(|| -> u8 { panic!("as a test of what follows") }).await.is_err());
    }
}
