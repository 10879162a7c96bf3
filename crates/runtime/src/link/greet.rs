//! The first words with a host: hello, welcome.

use trl_protocol::Fault;
use trl_protocol::frame::{self, Frame};
use trl_protocol::session::SessionInfo;
use trl_protocol::wire::{FromHost, HOST_PROTOCOL, SessionSpec, ToHost};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::backend::Connection;

/// A host that answered.
#[derive(Debug)]
pub struct Greeted {
    pub(crate) session: SessionInfo,
    pub(crate) connection: Connection,
    /// Bytes that were read beyond the welcome.
    pub(crate) surplus: Vec<u8>,
}

impl Greeted {
    /// The same host over another connection, which carries the first one's bytes.
    pub fn over(self, wrap: impl FnOnce(Connection) -> Connection) -> Greeted {
        Greeted { connection: wrap(self.connection), ..self }
    }
}

/// A greeting that goes on by itself, however long the host takes.
pub(crate) type Greeting = tokio::task::JoinHandle<Result<Greeted, GreetError>>;

#[derive(Debug, thiserror::Error)]
pub enum GreetError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("it closed the connection without a word")]
    Silent,
    #[error("{0}")]
    Refused(Fault),
    #[error("it speaks version {0} of the host protocol and this daemon version {HOST_PROTOCOL}")]
    Newer(u32),
    #[error("it does not speak the host protocol: {0}")]
    Garbled(String),
}

/// Says hello, with the session to create if the host is new, and waits for the welcome.
pub async fn greet(
    mut connection: Connection,
    create: Option<Box<SessionSpec>>,
) -> Result<Greeted, GreetError> {
    let mut hello = Vec::new();
    let garbled = |error: &dyn std::fmt::Display| GreetError::Garbled(error.to_string());
    frame::put_json(&mut hello, &ToHost::Hello { protocol: HOST_PROTOCOL, create })
        .map_err(|error| garbled(&error))?;
    connection.writer.write_all(&hello).await?;
    connection.writer.flush().await?;
    drop(hello);
    let mut inbox = Vec::with_capacity(4096);
    loop {
        let split = frame::split(&inbox).map_err(|error| garbled(&error.0))?;
        let Some((frame, used)) = split else {
            if connection.reader.read_buf(&mut inbox).await? == 0 {
                return Err(GreetError::Silent);
            }
            continue;
        };
        let Frame::Json(json) = frame else { return Err(garbled(&"output before the welcome")) };
        let message = serde_json::from_slice(json).map_err(|error| garbled(&error))?;
        inbox.drain(..used);
        return match message {
            FromHost::Welcome { protocol, .. } if protocol > HOST_PROTOCOL => {
                Err(GreetError::Newer(protocol))
            }
            FromHost::Welcome { session, .. } => {
                Ok(Greeted { session: *session, connection, surplus: inbox })
            }
            FromHost::Fault { fault, .. } => Err(GreetError::Refused(fault)),
            FromHost::Ended { reason, .. } => Err(GreetError::Refused(Fault::internal(reason))),
            other => Err(garbled(&format!("a message for request {} before the welcome", other.req()))),
        };
    }
}
