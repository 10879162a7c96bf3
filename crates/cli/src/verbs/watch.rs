//! `trl watch`: follows a session without touching it.

use anstream::adapter::StripBytes;
use trl_client::{Error, Event, SessionView, ViewEvent};
use trl_protocol::Code;
use trl_protocol::exec::Stream;
use trl_protocol::session::AttachParams;

use super::attach;
use crate::context::Context;
use crate::failure::Result;
use crate::output::Streams;
use crate::raw_terminal::RawTerminal;
use crate::target;
use crate::verbs::run::{Lines, Sink as _};

/// Follow what happens in a session
///
/// On a terminal as `trl attach --read-only`, where `q` leaves. In a pipe: lines of text, until the
/// session ends. With `--json`: one event a line, with the bytes as a terminal gets them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, by name or id
    #[arg(value_name = "SESSION", default_value = target::DEFAULT)]
    session: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    if !context.output.json && RawTerminal::is_there() {
        return attach::look(&args.session, context).await;
    }
    let client = context.client().await?;
    let params =
        AttachParams { session_id: args.session.clone(), read_only: true, ..AttachParams::default() };
    let mut view = client.view(&params).await?;
    let mut shown = view.next().await?;
    let mut streams = Streams::new();
    let mut text = Text::default();
    while let ViewEvent::Bytes { offset, bytes } = shown {
        if context.output.json {
            Lines(context.output).take(Event::Output { stream: Stream::Stdout, offset, bytes }).await?;
        } else {
            streams.write(Stream::Stdout, &text.lines(&bytes)).await?;
        }
        match next(&mut view).await? {
            Some(next) => shown = next,
            None => break,
        }
    }
    Ok(0)
}

/// `None` at the end of the session, which ends the watch as it should.
async fn next(view: &mut SessionView<'_>) -> Result<Option<ViewEvent>> {
    match view.next().await {
        Ok(shown) => Ok(Some(shown)),
        Err(Error::Fault(fault)) if fault.code == Code::SessionTerminated => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A line that does not end is handed on in pieces of this size.
const LONGEST: usize = 64 * 1024;

/// What a terminal gets, as lines for a program: without escape sequences, and of a line that
/// was written over what is left of it.
#[derive(Default)]
struct Text {
    escapes: StripBytes,
    line: Vec<u8>,
}

impl Text {
    /// The lines that these bytes end.
    fn lines(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut lines = Vec::new();
        for byte in self.escapes.strip_next(bytes).flatten() {
            match (*byte, self.line.last()) {
                (b'\n', _) => {
                    lines.append(&mut self.line);
                    // A return that no other text came after.
                    if lines.last() == Some(&b'\r') {
                        lines.pop();
                    }
                    lines.push(b'\n');
                }
                (b'\r', _) => self.line.push(b'\r'),
                (byte, Some(b'\r')) => self.line = vec![byte],
                (byte, _) => self.line.push(byte),
            }
            if self.line.len() == LONGEST {
                lines.append(&mut self.line);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_a_program() {
        let mut text = Text::default();
        for (bytes, expected) in [
            (&b"\x1b[31mred\x1b[0m\r\npart"[..], "red\n"),
            (b"ly\r\x1b[Jover\x1b[", ""),
            (b"1m it\r\n\r\n", "over it\n\n"),
        ] {
            assert_eq!(String::from_utf8(text.lines(bytes)).unwrap(), expected);
        }
    }
}
