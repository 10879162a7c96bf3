//! What is typed to a command on a terminal.

use std::io;
use std::os::fd::OwnedFd;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::limits;

use super::Tty;
use crate::commands::Exec;
use crate::shell::Shell;

const CONTROL_D: u8 = 4;
/// What the kernel keeps of typed keys, at most.
const LONGEST_UNREAD: usize = 4096;
/// Of a line that is typed to a terminal that hands input over by lines.
const LONGEST_PIECE: usize = 2000;

impl Exec {
    /// Takes what was typed to a command on a terminal.
    pub(crate) fn type_in(&mut self, shell: Option<&Shell>, data: &[u8], eof: bool) -> Result<(), Fault> {
        let Some(tty) = &mut self.tty else { return Ok(()) };
        if tty.pending.len() + data.len() > limits::MAX_STDIN_BYTES {
            let message = "the command does not read its terminal fast enough; write again when it has";
            return Err(Fault::new(Code::ResourcePressure, message));
        }
        let modes = tty.master(shell).and_then(|fd| rustix::termios::tcgetattr(fd).ok());
        tty.pending.extend(in_pieces(data, modes.as_ref()));
        if eof {
            tty.pending.extend(end_of_file(data, modes.as_ref()));
        }
        self.terminal.clear();
        self.mark_activity();
        Ok(())
    }
}

impl Tty {
    /// Queues answers of the terminal itself, as if they were typed.
    pub(crate) fn answer(&mut self, bytes: Vec<u8>) {
        self.pending.extend(bytes);
    }

    /// Bytes that were typed and that the kernel does not take yet.
    pub(crate) fn untaken(&self) -> usize {
        self.pending.len()
    }

    /// Passes on what was typed, as far as the kernel takes it.
    pub(crate) fn feed(&mut self, shell: Option<&Shell>) {
        while !self.pending.is_empty() {
            let Some(master) = self.master(shell) else { break };
            match rustix::io::write(master, self.pending.as_slices().0) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => self.pending.clear(),
            }
        }
    }
}

/// What was typed and is still in the terminal.
pub(super) fn unread(program_end: &OwnedFd) -> io::Result<Vec<u8>> {
    let modes = rustix::termios::tcgetattr(program_end)?;
    let mut by_key = modes.clone();
    by_key.local_modes.remove(LocalModes::ICANON);
    (by_key.special_codes[SpecialCodeIndex::VMIN], by_key.special_codes[SpecialCodeIndex::VTIME]) = (0, 0);
    rustix::termios::tcsetattr(program_end, OptionalActions::Now, &by_key)?;
    let mut keys = vec![0; LONGEST_UNREAD];
    let read = rustix::io::read(program_end, &mut keys);
    rustix::termios::tcsetattr(program_end, OptionalActions::Now, &modes)?;
    keys.truncate(read?);
    Ok(keys)
}

/// A terminal that hands input over by lines keeps 4095 bytes of one and drops the rest. The key that
/// ends the input hands over what there is of a line, without an end: so a long line goes in pieces.
/// A terminal that is still to be used (`None`) does so.
pub(super) fn in_pieces(data: &[u8], modes: Option<&Termios>) -> Vec<u8> {
    let by_line = modes.is_none_or(|modes| modes.local_modes.contains(LocalModes::ICANON));
    if !by_line || data.len() <= LONGEST_PIECE {
        return data.to_vec();
    }
    let hand_over = modes.map_or(CONTROL_D, |modes| modes.special_codes[SpecialCodeIndex::VEOF]);
    let mut pieces = Vec::with_capacity(data.len() + data.len() / LONGEST_PIECE + 1);
    for line in data.split_inclusive(|byte| *byte == b'\n' || *byte == b'\r') {
        let mut rest = line;
        while rest.len() > LONGEST_PIECE {
            let (piece, more) = rest.split_at(LONGEST_PIECE);
            pieces.extend_from_slice(piece);
            pieces.push(hand_over);
            rest = more;
        }
        pieces.extend_from_slice(rest);
    }
    pieces
}

/// The keys that end the input: at the start of a line one is enough, behind other
/// text the first only hands that over.
pub(super) fn end_of_file(after: &[u8], modes: Option<&Termios>) -> Vec<u8> {
    let key = modes.map_or(CONTROL_D, |modes| modes.special_codes[SpecialCodeIndex::VEOF]);
    let by_line = modes.is_none_or(|modes| modes.local_modes.contains(LocalModes::ICANON));
    let open_line = after.last().is_some_and(|last| *last != b'\n' && *last != b'\r');
    vec![key; if by_line && open_line { 2 } else { 1 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_line_takes_two_keys() {
        for (after, keys) in [(&b""[..], 1), (b"a\n", 1), (b"a\r", 1), (b"a", 2)] {
            assert_eq!(end_of_file(after, None), vec![CONTROL_D; keys]);
        }
    }
}
