//! Our own terminal, in raw mode while a session is shown on it, and as it was on every
//! way out: the end of the guard, a signal (which ends the verb), a panic.
//!
//! What the session's programs switch on is not known, since their bytes go through as they
//! are: so everything is switched off. Only which of the two screens shows is followed, as
//! leaving the other one twice would move the cursor.

use std::future::poll_fn;
use std::io::{self, IsTerminal as _};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Result};
use crate::output;

/// How the terminal was, while it is not; also for the panic hook.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whatever a program of the session has switched on: a part of the screen that scrolls, mouse,
/// focus, paste marks, keypad, ways to tell keys apart, drawing in one go, colours, a hidden cursor.
const PLAIN: &str = concat!(
    "\x1b7\x1b[r\x1b8",
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l",
    "\x1b[?2004l\x1b[?2026l\x1b[?1l\x1b>\x1b[>4;0m\x1b[=0u\x1b[4l\x1b[?7h\x1b(B\x0f\x1b[0 q\x1b[0m\x1b[?25h"
);
const OTHER_SCREEN: &[u8] = b"\x1b[?1049h";
const FIRST_SCREEN: &[u8] = b"\x1b[?1049l";

#[derive(Debug)]
pub(crate) struct RawTerminal {
    /// The last bytes shown, in case a sequence is cut between two pieces.
    tail: Vec<u8>,
    on_other_screen: bool,
}

impl RawTerminal {
    pub(crate) fn enter() -> Result<RawTerminal> {
        let stdin = io::stdin();
        let failed = |error: rustix::io::Errno| Failure::system("switching the terminal to raw mode", error);
        let before = tcgetattr(&stdin).map_err(failed)?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore(true);
            hook(info);
        }));
        tcsetattr(&stdin, OptionalActions::Flush, &raw).map_err(failed)?;
        Ok(RawTerminal { tail: Vec::new(), on_other_screen: false })
    }

    /// Whether a person sits at both ends.
    pub(crate) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Rows and columns.
    pub(crate) fn size() -> Option<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
    }

    /// Bytes that show the other screen, which is left again at the end.
    pub(crate) fn enter_other_screen(&mut self) -> &'static [u8] {
        self.on_other_screen = true;
        OTHER_SCREEN
    }

    /// Notes which screen the bytes that are shown lead to.
    pub(crate) fn note(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let last = |needle: &[u8]| self.tail.windows(needle.len()).rposition(|window| window == needle);
        match (last(OTHER_SCREEN), last(FIRST_SCREEN)) {
            (Some(other), first) if first.is_none_or(|first| first < other) => self.on_other_screen = true,
            (_, Some(_)) => self.on_other_screen = false,
            (_, None) => {}
        }
        let excess = self.tail.len().saturating_sub(OTHER_SCREEN.len() - 1);
        self.tail.drain(..excess);
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore(self.on_other_screen);
    }
}

fn restore(on_other_screen: bool) {
    let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let first_screen = if on_other_screen { FIRST_SCREEN } else { b"" };
    output::to_terminal(&[first_screen, PLAIN.as_bytes(), b"\r\n"].concat());
    // A terminal that is gone needs no modes.
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &before);
}

/// When the window gets another size.
pub(crate) struct WindowChanges(Signal);

impl WindowChanges {
    pub(crate) fn listen() -> Result<WindowChanges> {
        listen(SignalKind::window_change()).map(WindowChanges)
    }

    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// Signals that ask us to end. Heard from before the terminal is changed until it is as it was;
/// the keys for them are keys like others then.
pub(crate) struct EndSignals([(SignalKind, Signal); 4]);

impl EndSignals {
    pub(crate) fn listen() -> Result<EndSignals> {
        let heard = |kind| listen(kind).map(|signal| (kind, signal));
        Ok(EndSignals([
            heard(SignalKind::hangup())?,
            heard(SignalKind::interrupt())?,
            heard(SignalKind::quit())?,
            heard(SignalKind::terminate())?,
        ]))
    }

    /// The exit status, as a shell tells it of a program that the signal ended.
    pub(crate) async fn status(&mut self) -> u8 {
        let kind = poll_fn(|context| {
            let came = |(kind, signal): &mut (SignalKind, Signal)| {
                signal.poll_recv(context).is_ready().then_some(*kind)
            };
            self.0.iter_mut().find_map(came).map_or(Poll::Pending, Poll::Ready)
        });
        128 + kind.await.as_raw_value() as u8
    }
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| Failure::system("listening for signals", error))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use trl_testkit::Person;

    use super::*;

    #[test]
    fn the_screen_is_known_across_pieces() {
        let mut terminal = RawTerminal { tail: Vec::new(), on_other_screen: false };
        for (piece, expected) in [
            (&b"a\x1b[?10"[..], false),
            (b"49hvim", true),
            (b"text", true),
            (b"\x1b[?1049l\x1b[?1049h", true),
            (b"\x1b[?1049l", false),
        ] {
            terminal.note(piece);
            assert_eq!(terminal.on_other_screen, expected, "{piece:?}");
        }
    }

    const IN_PERSON: &str = "RAW_TERMINAL_PANICS";

    /// Itself once more, on a terminal.
    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        if std::env::var_os(IN_PERSON).is_some() {
            let _terminal = RawTerminal::enter().unwrap();
            output::to_terminal(b"\x1b[?1049h\x1b[?25l\x1b[?2004hdrawn");
            panic!("on purpose");
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let itself = "raw_terminal::tests::a_panic_leaves_the_terminal_as_it_was";
        command.args([itself, "--exact", "--nocapture"]).env(IN_PERSON, "1").env("RUST_BACKTRACE", "0");
        let mut person = Person::at(command);
        assert_eq!(person.ends().code(), Some(101));
        person.sees("on purpose");
        assert!(person.terminal_is_sound(), "{}", person.screen());
    }
}
