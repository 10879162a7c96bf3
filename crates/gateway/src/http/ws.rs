//! `GET /v1/ws`: the line protocol, a message a line.
//!
//! The messages go through pipes in memory to the same [`Connection`] that serves the
//! Unix socket, so that order, limits and back pressure are the same.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::time::{MissedTickBehavior, interval};
use trl_protocol::{Code, Fault, limits};

use super::access::Grant;
use super::admission::Admission;
use super::answer;
use super::routes::Front;
use crate::connection::Connection;

const PIPE: usize = 64 * 1024;
/// Longest message that is read at all. One longer than a line may be is answered as such;
/// one longer than this ends the connection.
const MAX_MESSAGE: usize = 4 * limits::MAX_LINE_BYTES;
/// A sign of life, so that a peer that is gone without a word is noticed.
const HEARTBEAT: Duration = Duration::from_secs(30);

pub(crate) async fn upgrade(
    State(front): State<Front>,
    Extension(grant): Extension<Grant>,
    Extension(admission): Extension<Arc<Admission>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    match upgrade {
        Ok(upgrade) => upgrade
            .max_message_size(MAX_MESSAGE)
            .max_frame_size(MAX_MESSAGE)
            .on_upgrade(|socket| async move {
                let connection = Connection::new(front.runtime, front.phase).with_grant(grant);
                serve(socket, connection).await;
                drop(admission);
            })
            .into_response(),
        Err(rejection) => refuse(&rejection.body_text()),
    }
}

fn refuse(problem: &str) -> Response {
    let fault = Fault::new(Code::ParseError, format!("this is for WebSocket only: {problem}"));
    let mut response = answer::refusal(StatusCode::UPGRADE_REQUIRED, fault);
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    response
}

async fn serve(socket: WebSocket, connection: Connection) {
    let (to_client, from_client) = socket.split();
    let (requests, reader) = tokio::io::duplex(PIPE);
    let (writer, answers) = tokio::io::duplex(PIPE);
    let (gone, hung_up) = tokio::sync::oneshot::channel::<()>();
    let hung_up = async {
        // Dropped without a word is as good as said.
        let _ = hung_up.await;
    };
    tokio::join!(
        async {
            take_in(from_client, requests).await;
            drop(gone);
        },
        connection.serve(reader, writer, hung_up),
        give_out(answers, to_client),
    );
}

/// Until the client closes, or the connection reads no more.
async fn take_in(mut messages: SplitStream<WebSocket>, mut requests: DuplexStream) {
    while let Some(message) = messages.next().await {
        let mut line = match message {
            Ok(Message::Text(text)) => text.as_str().as_bytes().to_vec(),
            Ok(Message::Binary(bytes)) => bytes.to_vec(),
            Ok(Message::Ping(_) | Message::Pong(_)) => continue,
            Ok(Message::Close(_)) => return,
            Err(error) => {
                tracing::debug!(%error, "a WebSocket broke");
                return;
            }
        };
        // A message is one line, however it is laid out; between words any white space is as good.
        for byte in line.iter_mut().filter(|byte| **byte == b'\n') {
            *byte = b'\r';
        }
        line.push(b'\n');
        if requests.write_all(&line).await.is_err() {
            break;
        }
    }
    // The connection has ended its reading; the client is still to take its answers, and to close.
    while let Some(Ok(message)) = messages.next().await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}

/// Until the connection has said its last word, or the client is gone.
async fn give_out(answers: DuplexStream, mut messages: SplitSink<WebSocket, Message>) {
    let mut answers = BufReader::with_capacity(PIPE, answers);
    let mut heartbeat = interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    heartbeat.reset();
    let mut line = Vec::new();
    loop {
        let message = tokio::select! {
            read = answers.read_until(b'\n', &mut line) => match read {
                Ok(0) | Err(_) => break,
                Ok(_) => {
                    line.pop();
                    match String::from_utf8(std::mem::take(&mut line)) {
                        Ok(text) => Message::Text(text.into()),
                        Err(error) => Message::Binary(error.into_bytes().into()),
                    }
                }
            },
            _ = heartbeat.tick() => Message::Ping(Default::default()),
        };
        if messages.send(message).await.is_err() {
            return;
        }
    }
    // A client that is gone needs no goodbye.
    let _ = messages.send(Message::Close(None)).await;
}
