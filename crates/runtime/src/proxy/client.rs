//! One connection of a program inside: which language it speaks, then what it asks for.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Proxy, http, socks};

/// For a program to say what it wants.
const ASK_TIMEOUT: Duration = Duration::from_secs(60);
/// For a refused program to read why, while it may still be sending.
const LAST_WORD: Duration = Duration::from_secs(2);
/// Most that it may say before it says what it wants.
const MAX_HEAD: usize = 64 * 1024;

/// What a program has said, of which not all may be used yet.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: TcpStream,
    heard: Vec<u8>,
}

/// A connection that is to carry bytes both ways from here on.
pub(super) struct Tunnel {
    pub(super) server: TcpStream,
    /// Goes to the server before everything else.
    pub(super) first: Vec<u8>,
    /// Goes to the program before everything else.
    pub(super) answer: &'static [u8],
}

pub(super) async fn serve(proxy: &Proxy, stream: TcpStream) {
    let mut client = Client { stream, heard: Vec::new() };
    // A program that goes away, or a server that does, is no fault of ours.
    if let Err(error) = converse(proxy, &mut client).await {
        tracing::debug!(session = %proxy.session.id, %error, "a connection through the proxy broke");
    }
}

async fn converse(proxy: &Proxy, client: &mut Client) -> io::Result<()> {
    let asked = async {
        match client.peek().await? {
            socks::VERSION => socks::tunnel(proxy, client).await,
            _ => http::tunnel(proxy, client).await,
        }
    };
    let tunnel = timeout(ASK_TIMEOUT, asked).await.map_err(|_| io::ErrorKind::TimedOut)??;
    match tunnel {
        Some(Tunnel { mut server, first, answer }) => {
            client.stream.write_all(answer).await?;
            server.write_all(&first).await?;
            server.write_all(&client.heard).await?;
            copy_bidirectional(&mut client.stream, &mut server).await.map(drop)
        }
        None => {
            // Closed with something unread, the answer might not arrive.
            client.stream.shutdown().await?;
            let mut nowhere = tokio::io::sink();
            timeout(LAST_WORD, tokio::io::copy(&mut client.stream, &mut nowhere)).await.ok();
            Ok(())
        }
    }
}

impl Client {
    async fn hear(&mut self) -> io::Result<()> {
        if self.heard.len() > MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match self.stream.read_buf(&mut self.heard).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn peek(&mut self) -> io::Result<u8> {
        loop {
            match self.heard.first() {
                Some(byte) => return Ok(*byte),
                None => self.hear().await?,
            }
        }
    }

    /// Exactly so many bytes.
    pub(super) async fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.heard.len() < count {
            self.hear().await?;
        }
        Ok(self.heard.drain(..count).collect())
    }

    /// Everything up to the end of an HTTP head, and with it.
    pub(super) async fn take_head(&mut self) -> io::Result<Vec<u8>> {
        loop {
            let end = self.heard.windows(4).position(|window| window == b"\r\n\r\n");
            match end {
                Some(end) => return self.take(end + 4).await,
                None => self.hear().await?,
            }
        }
    }
}
