//! How long clients may take, and a stream whose other side must go on reading: one that
//! takes nothing for too long is given up.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long clients may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For the head of a request, on a new connection or an idle one.
    pub head: Duration,
    /// For a whole body.
    pub body: Duration,
    /// For a TLS handshake.
    pub handshake: Duration,
    /// To take what was sent to them.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(60),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Patient<S> {
    inner: S,
    most: Duration,
    /// Runs while something waits to be taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(inner: S, most: Duration) -> Patient<S> {
        Patient { inner, most, stalled: None }
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, taken: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if taken.is_ready() {
            self.stalled = None;
            return taken;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.most)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(context, taken)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.judge(context, taken)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(context, taken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(context, taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn one_that_takes_nothing_is_given_up_and_one_that_does_is_not() {
        let (ours, theirs) = tokio::io::duplex(16);
        let error = Patient::new(ours, Duration::from_millis(20)).write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
        let (ours, mut theirs) = tokio::io::duplex(16);
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).await.map(|_| all.len())
        });
        let mut ours = Patient::new(ours, Duration::from_secs(20));
        ours.write_all(&[0; 640]).await.unwrap();
        drop(ours);
        assert_eq!(reading.await.unwrap().unwrap(), 640);
    }
}
