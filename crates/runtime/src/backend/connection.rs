//! A connection to a host: one stream of bytes each way.

use std::fmt;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::quiet_stream;

/// Boxed, so that the runtime is the same for a socket, a pipe and a child's stdin and stdout.
pub struct Connection {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Connection {
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Connection {
        Connection { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// A Unix socket, without wake-ups for room to write that nobody waits for.
    pub fn unix(stream: UnixStream) -> io::Result<Connection> {
        let (reader, writer) = quiet_stream::split(stream)?;
        Ok(Connection::new(reader, writer))
    }

    /// The two streams, for a backend that puts something between a host and the runtime.
    pub fn into_parts(self) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        (self.reader, self.writer)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connection { reader: _, writer: _ } = self;
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
