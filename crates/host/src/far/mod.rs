//! The host program where it was brought to: in a container or on another machine.
//!
//! There is no daemon there to do things on its behalf, so the program has modes for what a
//! daemon elsewhere asks of the place: to start a host that listens, to pass bytes to one, to
//! tell which sessions there are, to hand out what a dead one left, to remove it.

mod about;
mod connect;
mod export;
mod listen;
mod place;
mod relay;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use trl_protocol::SessionId;

/// What the program was asked for.
#[derive(Debug, PartialEq, Eq)]
enum Mode {
    /// Hosts for the daemon on the other end of stdin.
    Launcher,
    /// A host whose first daemon connects to this socket.
    Listen(PathBuf),
    /// A host in the background, for a session in the directories below this one.
    Start(SessionId),
    /// Bytes from stdin to a session's host, and back to stdout.
    Connect(SessionId),
    /// What this place is like.
    About,
    /// The sessions below the directory.
    List,
    /// How long ago a session last wrote about itself, by the clock of this place.
    Age(SessionId),
    /// The files of a session.
    Export(SessionId),
    /// Everything of a session.
    Remove(SessionId),
    /// Ends the host of a session.
    Kill(SessionId),
}

/// Runs the program with these arguments.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = args.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((mode, base)) = parse(&words) else {
        return failed("this program is started by trl");
    };
    let base = place::base(base);
    let done = match mode {
        Mode::Launcher => return crate::run(),
        Mode::Listen(path) => listen::run(&path),
        Mode::Start(id) => listen::start(&base, id),
        Mode::Connect(id) => connect::run(&place::of(&base, id)),
        Mode::About => about::run(),
        Mode::List => place::list(&base).and_then(|text| io::stdout().write_all(text.as_bytes())),
        Mode::Age(id) => place::age(&place::of(&base, id)),
        Mode::Export(id) => export::run(&place::of(&base, id).state_dir),
        Mode::Remove(id) => place::remove(&place::of(&base, id)),
        Mode::Kill(id) => place::kill(&place::of(&base, id)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(message: &str) -> ExitCode {
    // Whoever started this reads its stderr; if nobody does, there is nobody to tell.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::FAILURE
}

fn parse<'a>(words: &[&'a str]) -> Option<(Mode, &'a str)> {
    let (mode, base) = match words {
        [] => (Mode::Launcher, ""),
        ["--listen", path] => (Mode::Listen(PathBuf::from(path)), ""),
        ["--about"] => (Mode::About, ""),
        ["--list", base] => (Mode::List, *base),
        ["--start", base, id] => (Mode::Start(id.parse().ok()?), *base),
        ["--connect", base, id] => (Mode::Connect(id.parse().ok()?), *base),
        ["--age", base, id] => (Mode::Age(id.parse().ok()?), *base),
        ["--export", base, id] => (Mode::Export(id.parse().ok()?), *base),
        ["--remove", base, id] => (Mode::Remove(id.parse().ok()?), *base),
        ["--kill", base, id] => (Mode::Kill(id.parse().ok()?), *base),
        _ => return None,
    };
    Some((mode, base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let id = SessionId(7);
        for (words, expected) in [
            (&[][..], Some((Mode::Launcher, ""))),
            (&["--listen", "/x"], Some((Mode::Listen("/x".into()), ""))),
            (&["--start", "k", "s-00000007"], Some((Mode::Start(id), "k"))),
            (&["--export", "k", "s-00000007"], Some((Mode::Export(id), "k"))),
            (&["--age", "k", "s-00000007"], Some((Mode::Age(id), "k"))),
            (&["--start", "k", "../x"], None),
            (&["--nope"], None),
        ] {
            assert_eq!(parse(words), expected, "{words:?}");
        }
    }
}
