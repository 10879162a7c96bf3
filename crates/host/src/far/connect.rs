//! Gives a daemon elsewhere, on stdin and stdout, to the relay of a session here.

use std::io;

use super::place::SessionPaths;
use super::relay;

/// Returns when the relay has closed the connection, since one side of it is gone.
pub(super) fn run(place: &SessionPaths) -> io::Result<()> {
    let mut relay = relay::attach(place)?;
    relay::hand_over(&relay, &io::stdin(), &io::stdout())?;
    // They are the relay's alone now: whoever is at the other end notices when it closes them.
    let null = crate::null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    io::copy(&mut relay, &mut io::sink()).map(drop)
}
