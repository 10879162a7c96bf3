//! Runs work that waits for the disk or for processes on a thread of its own.
//!
//! Tokio's blocking pool aborts the process when the machine has no thread left. Here that
//! is an error like any other, which the caller handles.

use std::io;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = oneshot::channel();
    let event_loop = Handle::current();
    std::thread::Builder::new().name("blocking".to_owned()).spawn(move || {
        let _entered = event_loop.enter();
        // The caller may have been dropped; then nobody needs the result.
        let _ = answer.send(work());
    })?;
    answered.await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_result_comes_back_and_a_failure_is_an_error() {
        assert_eq!(run_blocking(|| 6 * 7).await.unwrap(), 42);
        assert!(run_blocking(|| Handle::try_current().is_ok()).await.unwrap());
        assert!(run_blocking(|| -> u8 { panic!("a panic that the test provokes") }).await.is_err());
    }
}
