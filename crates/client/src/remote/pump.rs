//! Carries lines between a pair of sockets and a WebSocket, until either ends.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// Longest message: an answer with as much output as may be asked for.
const MAX_MESSAGE: usize = 64 << 20;
/// How often the other side is asked for a sign of life.
const PING: Duration = Duration::from_secs(5);
/// A connection on which nothing came for so long is dead, though nobody has said so.
const SILENCE: Duration = Duration::from_secs(20);

pub(super) fn limits() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE))
}

pub(super) async fn carry<S>(socket: WebSocketStream<S>, lines: UnixStream)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (to_daemon, from_daemon) = socket.split();
    let (reader, writer) = lines.into_split();
    tokio::select! {
        () = requests(reader, to_daemon) => {}
        () = answers(from_daemon, writer) => {}
    }
}

/// Until the client has closed its end.
async fn requests<S>(reader: OwnedReadHalf, mut to_daemon: SplitSink<WebSocketStream<S>, Message>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    let mut ping = interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    loop {
        // What was read of a line stays in `line` when the other branch is taken.
        let message = tokio::select! {
            read = lines.read_until(b'\n', &mut line) => match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    line.pop();
                    match String::from_utf8(std::mem::take(&mut line)) {
                        Ok(text) => Message::Text(text.into()),
                        Err(error) => Message::Binary(error.into_bytes().into()),
                    }
                }
            },
            _ = ping.tick() => Message::Ping(Default::default()),
        };
        if to_daemon.send(message).await.is_err() {
            return;
        }
    }
    // A daemon that is gone needs no goodbye.
    let _ = to_daemon.close().await;
}

/// Until the daemon has closed its end, or is silent for too long. While the client takes nothing,
/// nothing is read, and the silence is not the daemon's.
async fn answers<S>(mut from_daemon: SplitStream<WebSocketStream<S>>, mut writer: OwnedWriteHalf)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    while let Ok(Some(Ok(message))) = timeout(SILENCE, from_daemon.next()).await {
        let mut line = match message {
            Message::Text(text) => text.as_str().as_bytes().to_vec(),
            Message::Binary(bytes) => bytes.to_vec(),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            Message::Close(_) => return,
        };
        line.push(b'\n');
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}
