//! The only place that writes to the terminal.
//!
//! stdout is for what was asked, stderr for what trl itself has to say. A reader that
//! has gone away ends a verb quietly ([`Failure::closed_pipe`]).

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use trl_protocol::exec::Stream;
use trl_protocol::quote;

use crate::failure::{Failure, Result};

/// How answers are given, decided once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) paint: Paint,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json, paint: Paint(wants_colour(io::stdout().is_terminal())) }
    }

    /// One line of the answer.
    pub(crate) fn line(self, text: impl AsRef<str>) -> Result<()> {
        self.text(&format!("{}\n", text.as_ref()))
    }

    pub(crate) fn text(self, text: &str) -> Result<()> {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(write_failed)
    }

    /// The answer as one line of JSON.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|error| Failure::system("writing JSON", error))?;
        self.line(text)
    }

    pub(crate) fn failure(self, failure: &Failure) {
        if failure.is_quiet() {
            return;
        }
        if let (true, Some(json)) = (self.json, failure.to_json()) {
            // Nobody is left to tell if this fails too.
            let _ = self.json(&json);
            return;
        }
        note(failure.message());
        for hint in failure.hints() {
            self::hint(hint);
        }
    }
}

/// Something trl itself has to say: `trl: …` on stderr.
pub(crate) fn note(text: &str) {
    let name = Paint(wants_colour(io::stderr().is_terminal())).bold("trl:");
    say(&format!("{name} {}", harmless(text)));
}

/// A note that only somebody who watches needs.
pub(crate) fn note_to_person(text: &str) {
    if io::stderr().is_terminal() {
        note(text);
    }
}

/// The lines of a prompt that the line editor does not draw.
pub(crate) fn above_prompt(text: &str) {
    // A terminal that is gone is told by the read that follows.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Bytes that put a terminal back to what it was.
pub(crate) fn to_terminal(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    // One that is gone needs none.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Replaces the line that somebody watches; an empty one removes it.
pub(crate) fn status_line(text: &str) {
    let mut stderr = std::io::stderr();
    // Nobody is told that a line for somebody who watches could not be shown.
    let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
}

/// For a harness that reads our stderr: the words alone.
pub(crate) fn plain_to_stderr(text: &str) {
    say(text);
}

/// Goes with the note before it.
pub(crate) fn hint(text: &str) {
    say(&format!("     {}", harmless(text)));
}

/// What we say names files and texts of others: nothing in them is for the terminal, nor looks like a line of ours.
fn harmless(text: &str) -> String {
    text.split('\n').map(quote::inline).collect::<Vec<_>>().join("\n     ")
}

fn say(line: &str) {
    // `eprintln!` would panic where stderr is closed.
    let _ = writeln!(io::stderr(), "{line}");
}

fn write_failed(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::closed_pipe()
    } else {
        Failure::system("writing to stdout", error)
    }
}

fn wants_colour(is_terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }
}

/// How long a terminal may take for what is on its way to it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A command's two streams, written off the event loop: a reader that stalls must not
/// keep Ctrl-C from being heard.
#[derive(Debug)]
pub(crate) struct Streams {
    stdout: tokio::io::Stdout,
    stderr: tokio::io::Stderr,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams { stdout: tokio::io::stdout(), stderr: tokio::io::stderr() }
    }

    pub(crate) async fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<()> {
        let written = match stream {
            Stream::Stdout => put(&mut self.stdout, bytes).await,
            Stream::Stderr => put(&mut self.stderr, bytes).await,
        };
        written.map_err(write_failed)
    }

    /// Waits until what was begun is written, though nobody waits for its writer any more: what
    /// is written to the terminal next comes behind it. One that takes nothing is given up.
    pub(crate) async fn settle(&mut self) {
        let _ = tokio::time::timeout(LAST_WORDS, self.stdout.flush()).await;
    }
}

async fn put(to: &mut (impl tokio::io::AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// How wide the terminal is; `None` where there is none, so that nothing is cut for a file.
pub(crate) fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(&stdout)
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|width| *width > 0)
}
