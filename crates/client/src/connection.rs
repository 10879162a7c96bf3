//! One connection that carries one request at a time.
//!
//! A stream has a connection of its own: what the caller has not taken yet waits in
//! the socket, so a slow reader slows the daemon and nobody else.

use std::io;
use std::path::Path;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use trl_sys::trust;

use crate::error::{Error, Result};

/// Longest path of a socket: `sun_path` without its closing NUL.
pub const MAX_SOCKET_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

const READ_BUFFER: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    line: Vec<u8>,
}

/// How a connection ended before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Linux resets a connection whose other end was closed with bytes unread in it. There
    /// is one request at a time, so these were ours: the daemon has not had it whole.
    Unread,
    /// Nothing more comes; what was asked may have been done.
    Closed,
}

impl Connection {
    /// Connects, and makes sure that only this user or root can be at the other end: what a
    /// client sends first is its whole environment.
    pub(crate) async fn open(socket: &Path) -> Result<Connection> {
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(Error::PathTooLong { socket: socket.to_owned(), limit: MAX_SOCKET_PATH });
        }
        trust::check_path(socket)?;
        let stream = UnixStream::connect(socket).await.map_err(|source| match source.kind() {
            // Reset: it was killed while we waited to be accepted.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                Error::NoDaemon { socket: socket.to_owned() }
            }
            _ => Error::Connect { socket: socket.to_owned(), source },
        })?;
        trust::check_peer(&stream, socket)?;
        Ok(Connection::over(stream))
    }

    /// Of a stream that leads to a daemon, however that came about.
    pub(crate) fn over(stream: UnixStream) -> Connection {
        let (reader, writer) = stream.into_split();
        Connection { reader: BufReader::with_capacity(READ_BUFFER, reader), writer, line: Vec::new() }
    }

    /// After an error the daemon has not seen the line whole, so it did nothing.
    pub(crate) async fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.writer.write_all(line).await
    }

    /// The next line, or how the connection ended.
    pub(crate) async fn next_line(&mut self) -> std::result::Result<&[u8], Ended> {
        self.line.clear();
        match self.reader.read_until(b'\n', &mut self.line).await {
            Ok(_) if self.line.ends_with(b"\n") => Ok(&self.line),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset && self.line.is_empty() => {
                Err(Ended::Unread)
            }
            Ok(_) | Err(_) => Err(Ended::Closed),
        }
    }

    /// Waits until the daemon has closed the connection.
    pub(crate) async fn closed(mut self) {
        let mut discard = [0; 4096];
        while self.reader.read(&mut discard).await.is_ok_and(|read| read > 0) {}
    }

    /// Waits until something comes while the connection lies idle; that is its end.
    pub(crate) async fn until_stale(&self) {
        while self.is_fresh() && self.reader.get_ref().readable().await.is_ok() {}
    }

    /// Whether nothing came while the connection lay idle, not even its end.
    pub(crate) fn is_fresh(&self) -> bool {
        let mut probe = [0];
        let blocked = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.reader.buffer().is_empty() && self.reader.get_ref().try_read(&mut probe).is_err_and(blocked)
    }
}
