//! Bytes between a daemon elsewhere, on stdin and stdout, and the relay of a session here.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use super::place::SessionPaths;
use super::relay;

/// Moved at once.
const CHUNK: usize = 128 * 1024;

/// Returns when either side closes its connection.
pub(super) fn run(place: &SessionPaths) -> io::Result<()> {
    let relay = relay::attach(place)?;
    let mut to_relay = relay.try_clone()?;
    std::thread::Builder::new().name("to-relay".to_owned()).spawn(move || {
        // The daemon is gone, or the relay is: either way the other direction ends as well.
        let _ = pass(&mut io::stdin().lock(), &mut to_relay);
        let _ = to_relay.shutdown(Shutdown::Both);
    })?;
    pass(&mut &relay, &mut io::stdout().lock())
}

fn pass(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                to.write_all(&buffer[..read])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
