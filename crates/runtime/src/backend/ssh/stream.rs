//! A connection to a host over there that survives broken networks.
//!
//! A task owns it: it starts `ssh`, exchanges with the far relay what has arrived, and moves
//! bytes; when `ssh` ends, it starts the next one. The runtime sees two streams that pause.
//! They end when the relay says that the host is gone.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use trl_protocol::resume::{Greeting, Reception, ResumableEnd, Token};

use super::client::SshClient;
use crate::backend::Connection;

/// Between the runtime and the task.
const PIPE: usize = 256 * 1024;
const CHUNK: usize = 128 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long `ssh` and the relay may take to answer.
const GREETING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long `ssh` may take to end after its output has.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a stream ended before it began.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody is there to speak with.
    Gone,
    Unreachable(String),
}

/// One connection of `ssh` to the relay.
struct Carrier {
    /// Ends `ssh` when it is dropped.
    child: Child,
    to: ChildStdin,
    from: ChildStdout,
}

/// Where bytes come from and go to, and what is kept of them.
struct Stream {
    client: Arc<SshClient>,
    key: String,
    session: String,
    token: Token,
    end: ResumableEnd,
    from_runtime: ReadHalf<DuplexStream>,
    to_runtime: WriteHalf<DuplexStream>,
    /// The runtime has closed its side.
    closed: bool,
    /// The last attempt has not found the host program over there.
    program_missing: bool,
}

/// Opens a stream; `first` tells whether that succeeded at once. If nobody waits for that, it goes on trying.
pub(super) fn open(
    client: Arc<SshClient>,
    key: String,
    session: String,
    first: oneshot::Sender<Result<(), Failure>>,
) -> io::Result<Connection> {
    let mut token = Token::default();
    getrandom::fill(&mut token).map_err(io::Error::other)?;
    let (near, far) = duplex(PIPE);
    let (from_runtime, to_runtime) = split(far);
    let stream = Stream {
        client,
        key,
        session,
        token,
        end: ResumableEnd::new(),
        from_runtime,
        to_runtime,
        closed: false,
        program_missing: false,
    };
    tokio::spawn(stream.run(first));
    let (reader, writer) = split(near);
    Ok(Connection::new(reader, writer))
}

impl Stream {
    async fn run(mut self, first: oneshot::Sender<Result<(), Failure>>) {
        let mut first = Some(first);
        let mut began = false;
        let mut pause = FIRST_PAUSE;
        loop {
            let connected = match self.connect(began).await {
                Err(Failure::Unreachable(_)) if self.client.is_gone().await => Err(Failure::Gone),
                other => other,
            };
            match connected {
                Ok(carrier) => {
                    began = true;
                    pause = FIRST_PAUSE;
                    if let Some(first) = first.take() {
                        // Nobody may wait for it any more.
                        let _ = first.send(Ok(()));
                    }
                    if self.carry(carrier).await {
                        return;
                    }
                }
                Err(Failure::Gone) => {
                    if let Some(first) = first.take() {
                        let _ = first.send(Err(Failure::Gone));
                    }
                    return;
                }
                Err(Failure::Unreachable(reason)) => {
                    tracing::debug!(session = self.session, reason, "ssh to a host failed");
                    if let Some(first) = first.take() {
                        let _ = first.send(Err(Failure::Unreachable(reason)));
                    }
                }
            }
            if self.closed {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reaches the relay. If the program that is to reach it is gone over there, it is brought again first.
    async fn connect(&mut self, again: bool) -> Result<Carrier, Failure> {
        let reached = self.reach(again).await;
        if !std::mem::take(&mut self.program_missing) {
            return reached;
        }
        self.client.bring_again().await.map_err(|fault| Failure::Unreachable(fault.message.into()))?;
        self.reach(again).await
    }

    /// Reaches the relay, and agrees with it on what has arrived.
    async fn reach(&mut self, again: bool) -> Result<Carrier, Failure> {
        let failed = |error: io::Error| Failure::Unreachable(error.to_string());
        let words = ["--connect", self.key.as_str(), self.session.as_str()];
        let mut command = self
            .client
            .far_program(&words)
            .await
            .map_err(|fault| Failure::Unreachable(fault.message.into()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Unreachable("no pipes to ssh".to_owned()));
        };
        let mut carrier = Carrier { child, to, from };
        let received = again.then(|| self.end.received());
        let greeting = Greeting { token: self.token, received }.to_bytes();
        let mut reception = [0; Reception::BYTES];
        let exchange = async {
            carrier.to.write_all(&greeting).await?;
            carrier.to.flush().await?;
            carrier.from.read_exact(&mut reception).await
        };
        match tokio::time::timeout(GREETING_TIMEOUT, exchange).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                let ended = tokio::time::timeout(EXIT_TIMEOUT, carrier.child.wait()).await;
                self.program_missing =
                    matches!(ended, Ok(Ok(status)) if SshClient::is_program_missing(status));
                return Err(failed(error));
            }
            Err(_) => return Err(Failure::Unreachable("no answer".to_owned())),
        }
        match Reception::parse(&reception) {
            Ok(Reception::Continue(received)) => {
                self.end.connected(received).map_err(|_| Failure::Gone)?;
                Ok(carrier)
            }
            Ok(Reception::Gone) => Err(Failure::Gone),
            Err(_) => Err(Failure::Unreachable("it is not the host program that answers".to_owned())),
        }
    }

    /// Moves bytes until `ssh` ends; true if the conversation is over.
    async fn carry(&mut self, mut carrier: Carrier) -> bool {
        let (mut said, mut heard) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut out, mut written) = (Vec::new(), 0);
        loop {
            if written == out.len() {
                out.clear();
                written = 0;
                self.end.take_output(&mut out);
            }
            if self.closed && out.is_empty() {
                return true;
            }
            let room = self.end.room().min(CHUNK);
            tokio::select! {
                biased;
                wrote = carrier.to.write(&out[written..]), if written < out.len() => match wrote {
                    Ok(count) => written += count,
                    Err(_) => return false,
                },
                read = carrier.from.read(&mut heard) => match read {
                    Ok(0) | Err(_) => return false,
                    Ok(count) => {
                        let mut data = Vec::new();
                        if self.end.take_input(&heard[..count], &mut data).is_err() {
                            return false;
                        }
                        if !data.is_empty() && self.to_runtime.write_all(&data).await.is_err() {
                            self.close();
                        }
                        if self.end.has_ended() {
                            // Said, so that the relay need not keep it any longer.
                            self.end.take_output(&mut out);
                            let _ = carrier.to.write_all(&out[written..]).await;
                            let _ = self.to_runtime.shutdown().await;
                            return true;
                        }
                    }
                },
                read = self.from_runtime.read(&mut said[..room]), if room > 0 && !self.closed => match read {
                    Ok(0) | Err(_) => self.close(),
                    Ok(count) => self.end.push(&said[..count]),
                },
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.end.finish();
    }
}
