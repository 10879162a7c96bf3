//! `trl attach`: a person in the living session that agents use.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use trl_client::{Client, Error, SessionView, ViewEvent};
use trl_protocol::exec::{Encoding, Stream};
use trl_protocol::session::{AttachParams, Detached, InputParams, NOBODY_ATTACHED, Released, ResizeParams};
use trl_protocol::{Fault, methods};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{self, Streams};
use crate::raw_terminal::{EndSignals, RawTerminal, WindowChanges};
use crate::target;

/// Somebody else has the session now.
const TAKEN_OVER: u8 = 3;

/// Connect your terminal to a session
///
/// Shows the session as it is, with what scrolled by, and follows everything that runs in it,
/// whoever started it. Lines that you type run in its living shell, on a terminal; keys go to the
/// program that runs there. Your window gives the terminal its size. One person types at a time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, by name or id
    #[arg(value_name = "SESSION", default_value = target::DEFAULT)]
    session: String,
    /// Watch without typing
    #[arg(short, long, conflicts_with = "take_over")]
    read_only: bool,
    /// Take over from the client that is attached now
    #[arg(short, long)]
    take_over: bool,
    /// The key that detaches; the session continues
    #[arg(long, value_name = "KEY", default_value = "^]", value_parser = parse_key)]
    detach_key: Key,
}

/// A control key, as `^]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key(u8);

fn parse_key(text: &str) -> std::result::Result<Key, String> {
    match text.as_bytes() {
        [b'^', key @ b'@'..=b'_'] => Ok(Key(key & 0x1f)),
        [b'^', key @ b'a'..=b'z'] => Ok(Key(key & 0x1f)),
        _ => Err("a control key is written like ^] or ^A".to_owned()),
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ctrl-{}", char::from(self.0 | 0x40))
    }
}

/// How a stay ended.
enum Leave {
    Detached,
    Over(Detached),
    /// With this exit status.
    Signal(u8),
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let stay = Stay { session: &args.session, read_only: args.read_only, key: args.detach_key };
    stay.until_left(args.take_over, context).await
}

/// Only looking, from `trl watch`.
pub(super) async fn look(session: &str, context: &Context) -> Result<u8> {
    Stay { session, read_only: true, key: Key(0x1d) }.until_left(false, context).await
}

/// Somebody at a session.
#[derive(Clone, Copy)]
struct Stay<'a> {
    session: &'a str,
    read_only: bool,
    key: Key,
}

impl Stay<'_> {
    async fn until_left(self, take_over: bool, context: &Context) -> Result<u8> {
        if context.output.json || !RawTerminal::is_there() {
            return Err(Failure::usage("attaching needs a terminal")
                .hint("`trl watch SESSION | …` and `trl screen SESSION --json` are for programs"));
        }
        let session = self.session;
        let client = context.client().await?;
        // Before the window is measured, so that no change of it is missed.
        let changes = WindowChanges::listen()?;
        let size = RawTerminal::size();
        let (rows, cols) = size.unzip();
        let session_id = session.to_owned();
        let params = AttachParams { session_id, read_only: self.read_only, take_over, rows, cols };
        let mut view = client.view(&params).await?;
        // The first bytes show that we are let in; before that the terminal is left alone.
        let first = view.next().await?;
        let mut signals = EndSignals::listen()?;
        let mut terminal = RawTerminal::enter()?;
        let mut streams = Streams::new();
        let (shown, pieces) = watch::channel(0);
        let left = tokio::select! {
            over = self.show(view, first, &mut terminal, &mut streams, shown) => over.map(Leave::Over),
            left = self.type_in(&client, pieces) => left,
            error = self.follow_window(&client, changes, size) => Err(error),
            status = signals.status() => Ok(Leave::Signal(status)),
        };
        streams.settle().await;
        drop(terminal);
        match left? {
            Leave::Detached => output::note(&format!("detached from {session}; it continues")),
            Leave::Over(Detached { reason: Released::Left, .. }) => {
                output::note(&format!("left {session}; it continues"));
            }
            Leave::Over(Detached { reason: Released::TakenOver, .. }) => {
                output::note(&format!("another client took {session} over"));
                return Ok(TAKEN_OVER);
            }
            Leave::Signal(status) => return Ok(status),
        }
        Ok(0)
    }

    /// Whatever there is to see; `pieces` counts it.
    async fn show(
        self,
        mut view: SessionView<'_>,
        first: ViewEvent,
        terminal: &mut RawTerminal,
        streams: &mut Streams,
        pieces: watch::Sender<u64>,
    ) -> Result<Detached> {
        // What is on the screen now scrolls away instead of being drawn over.
        let rows = RawTerminal::size().map_or(24, |(rows, _)| rows);
        streams.write(Stream::Stdout, "\n".repeat(rows.into()).as_bytes()).await?;
        let mut shown = first;
        let mut hint = Some(hint(self.key));
        loop {
            match shown {
                ViewEvent::Bytes { bytes, .. } => {
                    terminal.note(&bytes);
                    pieces.send_modify(|count| *count += 1);
                    streams.write(Stream::Stdout, &bytes).await?;
                }
                ViewEvent::Over(detached) => return Ok(detached),
            }
            if let Some(hint) = hint.take() {
                streams.write(Stream::Stdout, hint.as_bytes()).await?;
            }
            shown = view.next().await?;
        }
    }

    /// Keys to the session, until the one that detaches.
    async fn type_in(self, client: &Arc<Client>, mut pieces: watch::Receiver<u64>) -> Result<Leave> {
        let mut stdin = tokio::io::stdin();
        let mut buffer = [0; 4096];
        loop {
            let read = stdin.read(&mut buffer).await;
            let read = read.map_err(|error| Failure::system("reading the terminal", error))?;
            let keys = &buffer[..read];
            let end = keys.iter().position(|typed| *typed == self.key.0);
            let sent = &keys[..end.unwrap_or(read)];
            if !self.read_only && !sent.is_empty() {
                self.send(client, sent, &mut pieces).await?;
            }
            // Who only looks may leave as from a pager.
            if end.is_some() || read == 0 || (self.read_only && matches!(keys, [b'q' | 3])) {
                return Ok(Leave::Detached);
            }
        }
    }

    async fn send(self, client: &Client, keys: &[u8], pieces: &mut watch::Receiver<u64>) -> Result<()> {
        let session_id = self.session.to_owned();
        let input = InputParams { session_id, data: STANDARD.encode(keys), encoding: Encoding::Base64 };
        loop {
            let before = *pieces.borrow_and_update();
            match client.call::<methods::SessionInput>(&input).await {
                Ok(_) => return Ok(()),
                // Nobody knows whether it arrived; who does not see it types it again.
                Err(Error::Lost { .. }) => return Ok(()),
                // Another daemon has the session and our view of it is on its way.
                Err(Error::Fault(fault)) if is_nobody_attached(&fault) => {
                    if pieces.wait_for(|count| *count != before).await.is_err() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn follow_window(
        self,
        client: &Arc<Client>,
        mut changes: WindowChanges,
        mut told: Option<(u16, u16)>,
    ) -> Failure {
        loop {
            let size = RawTerminal::size();
            if let (false, true, Some((rows, cols))) = (self.read_only, size != told, size) {
                let params = ResizeParams { session_id: self.session.to_owned(), rows, cols };
                // The session may be ending; the view tells.
                let _ = client.call::<methods::SessionResize>(&params).await;
                told = size;
            }
            changes.next().await;
        }
    }
}

fn is_nobody_attached(fault: &Fault) -> bool {
    fault.details.as_ref().is_some_and(|details| details["reason"] == NOBODY_ATTACHED)
}

/// In the corner of the first screen, until something is drawn there.
fn hint(key: Key) -> String {
    let text = format!(" {key} leaves ");
    let col = RawTerminal::size().map_or(80, |(_, cols)| cols).saturating_sub(text.len() as u16) + 1;
    format!("\x1b7\x1b[1;{col}H\x1b[7m{text}\x1b[0m\x1b8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_as_people_write_them() {
        for (text, key) in [("^]", Some(0x1d)), ("^A", Some(1)), ("^a", Some(1)), ("x", None), ("^", None)] {
            assert_eq!(parse_key(text).ok().map(|key| key.0), key, "{text}");
        }
        assert_eq!(Key(0x1d).to_string(), "Ctrl-]");
    }
}
