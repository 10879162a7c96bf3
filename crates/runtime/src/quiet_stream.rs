//! A Unix stream that wakes its owner for what can be read, not for what could be written.
//!
//! Tokio's own watches for both, and a Unix socket becomes "writable" again each time the
//! other end reads: one needless wake-up per message, which costs more than handling the
//! message. Here writing is simply tried, and watched for only once it would have blocked.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// Makes the two halves of a connected, non-blocking stream. Needs a running event loop.
pub fn split(stream: tokio::net::UnixStream) -> io::Result<(QuietReader, QuietWriter)> {
    let stream = Arc::new(stream.into_std()?);
    let reader = QuietReader { stream: watch(Arc::clone(&stream), Interest::READABLE)? };
    Ok((reader, QuietWriter { stream, watched: None }))
}

fn watch<T: std::os::fd::AsRawFd>(stream: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: both kinds of `T` used here own their descriptor, give the same one each
    // time, and keep it open until they are dropped, which the `AsyncFd` then does.
    unsafe { AsyncFd::register_with_interest(stream, interest) }.map_err(|error| error.into_parts().1)
}

#[derive(Debug)]
pub struct QuietReader {
    stream: AsyncFd<Arc<StdUnixStream>>,
}

impl AsyncRead for QuietReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut readable = ready!(self.stream.poll_read_ready(cx))?;
            let size = buf.remaining();
            // SAFETY: the read only ever adds initialized bytes.
            let room = unsafe { buf.unfilled_mut() };
            match rustix::io::read(self.stream.get_ref(), room).map(|(read, _)| read.len()) {
                Ok(read) => {
                    // SAFETY: these bytes have just been read into it.
                    unsafe { buf.assume_init(read) };
                    buf.advance(read);
                    // Less than there was room for: it is empty now, and will say when it is not.
                    if read > 0 && read < size {
                        readable.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::WOULDBLOCK) => readable.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

#[derive(Debug)]
pub struct QuietWriter {
    stream: Arc<StdUnixStream>,
    /// The same socket under another descriptor, so that it can be watched by itself.
    watched: Option<AsyncFd<OwnedFd>>,
}

impl QuietWriter {
    /// Writes what can be written at once.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.stream.as_ref().write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Resolves when a write that would have blocked may be tried again.
    pub async fn writable(&mut self) -> io::Result<()> {
        std::future::poll_fn(|cx| self.poll_writable(cx)).await
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let watched = match &mut self.watched {
            Some(watched) => watched,
            none => none.insert(watch(OwnedFd::from(self.stream.try_clone()?), Interest::WRITABLE)?),
        };
        let mut writable = ready!(watched.poll_write_ready(cx))?;
        // Told once: if the write blocks all the same, the next change is waited for.
        writable.clear_ready();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for QuietWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_writable(cx))?,
                other => return Poll::Ready(other),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    #[tokio::test]
    async fn all_arrives_whoever_is_slower() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = split(one).unwrap();
        let (mut other_reader, mut other_writer) = split(other).unwrap();
        let sent: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
        let expected = sent.clone();
        let echoing = tokio::spawn(async move {
            tokio::io::copy(&mut other_reader, &mut other_writer).await.unwrap();
            other_writer.shutdown().await.unwrap();
        });
        let writing = tokio::spawn(async move {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
            writer
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        assert!(received == expected);
        echoing.await.unwrap();
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn messages_one_at_a_time_and_the_end() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, _writer) = split(one).unwrap();
        let (_other_reader, mut other_writer) = split(other).unwrap();
        let mut buffer = [0; 64];
        for message in ["a", "bc", "def"] {
            other_writer.write_all(message.as_bytes()).await.unwrap();
            let read = reader.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..read], message.as_bytes());
        }
        drop((_other_reader, other_writer));
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 0);
    }
}
