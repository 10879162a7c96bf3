//! Bytes in and out of commands: pipes and the terminal into the journal and on to subscribers,
//! writes to stdin.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use trl_protocol::exec::Stream;

use super::Host;
use crate::commands::{Exec, Input, PIPE_BYTES};
use crate::rare::RareSource;

/// How long a line of stderr is held that may become a message of the shell's.
const LONGEST_HOLD: Duration = Duration::from_millis(20);
/// More reads than the kernel's buffers of a terminal can fill.
const READS_AT_END: usize = 256;

impl Host {
    pub(super) fn on_output(&mut self, number: u64, stream: Stream) {
        let mut buffer = std::mem::take(&mut self.kernel.buffer);
        let exec = self.commands.get_mut(number);
        let read = match exec.and_then(|exec| exec.outputs[stream.index()].as_mut()) {
            Some(output) => rustix::io::read(&output.read, &mut buffer)
                .inspect(|read| output.note_read(*read, buffer.len())),
            None => Err(rustix::io::Errno::AGAIN),
        };
        match read {
            Ok(0) => self.close_output(number, stream),
            Ok(read) => self.take_output(number, stream, &buffer[..read]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.close_output(number, stream),
        }
        self.kernel.buffer = buffer;
    }

    /// Pipes that have been left alone for long enough are looked at again.
    pub(super) fn end_pauses(&mut self, now: Instant) {
        for number in self.commands.active_numbers() {
            let exec = self.commands.get_mut(number);
            let outputs = exec.into_iter().flat_map(|exec| exec.outputs.iter_mut().flatten());
            outputs.for_each(|output| output.end_pause(now));
        }
    }

    fn close_output(&mut self, number: u64, stream: Stream) {
        self.release_held_of(number);
        if let Some(exec) = self.commands.get_mut(number) {
            exec.outputs[stream.index()] = None;
        }
        self.prune();
    }

    /// Takes what came out of a command's pipe or terminal, without what the shell itself wrote.
    fn take_output(&mut self, number: u64, stream: Stream, bytes: &[u8]) {
        let exec = self.commands.get_mut(number).filter(|exec| stream == exec.stderr());
        let Some((filter, held_until)) =
            exec.and_then(|exec| Some((exec.messages.as_mut()?, &mut exec.held_until)))
        else {
            return self.keep_output(number, stream, bytes);
        };
        let own = filter.pass(bytes);
        *held_until = filter.is_holding().then(|| Instant::now() + LONGEST_HOLD);
        if !own.is_empty() {
            self.keep_output(number, stream, &own);
        }
    }

    /// Passes on lines of stderr that are not whole and have been held for long enough.
    pub(super) fn release_held(&mut self, now: Instant) {
        let due = |exec: &&Exec| exec.held_until.is_some_and(|at| at <= now);
        let numbers: Vec<u64> = self.commands.active().filter(due).map(|exec| exec.number).collect();
        for number in numbers {
            self.release_held_of(number);
        }
    }

    fn release_held_of(&mut self, number: u64) {
        let Some(exec) = self.commands.get_mut(number) else { return };
        exec.held_until = None;
        let held = exec.messages.as_mut().map(|filter| filter.flush()).unwrap_or_default();
        if !held.is_empty() {
            let stream = exec.stderr();
            self.keep_output(number, stream, &held);
        }
    }

    /// Keeps what a command wrote, and shows it to whoever looks.
    fn keep_output(&mut self, number: u64, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stdout && self.commands.get(number).is_some_and(|exec| exec.tty.is_some()) {
            self.draw(number, bytes);
        }
        self.show_output(number, bytes);
        let Some(offset) = self.commands.append(number, stream, bytes) else { return };
        self.subscribers.deliver(&self.commands, number, stream, offset, bytes);
    }

    /// Reads everything that is in the pipes now, and not what a background child writes from here
    /// on. A pipe that nobody else holds is done with.
    pub(super) fn drain_outputs(&mut self, number: u64) {
        let is_tty = self.commands.get(number).is_some_and(|exec| exec.tty.is_some());
        if is_tty && self.terminal.owner(self.driver.foreground()) == Some(number) {
            self.drain_terminal();
        }
        for stream in Stream::BOTH {
            let mut left = PIPE_BYTES;
            while left > 0 {
                let Some(exec) = self.commands.get_mut(number) else { return };
                let Some(output) = &mut exec.outputs[stream.index()] else { break };
                output.hold = None;
                let mut buffer = std::mem::take(&mut self.kernel.buffer);
                let read = rustix::io::read(&output.read, &mut buffer);
                match read {
                    Ok(0) => {
                        let done = exec.outputs[stream.index()].take();
                        done.into_iter().for_each(|output| self.kernel.spare.put_away(output.read));
                    }
                    Ok(read) => self.take_output(number, stream, &buffer[..read]),
                    Err(_) => {}
                }
                self.kernel.buffer = buffer;
                match read {
                    Ok(read) if read > 0 => left = left.saturating_sub(read),
                    Err(rustix::io::Errno::INTR) => {}
                    _ => break,
                }
            }
        }
        self.release_held_of(number);
    }

    // The shell's terminal.

    /// Waits for what is written to the shell's terminal, unless its command must wait for its listener or nobody has
    /// it open.
    pub(super) fn watch_terminal(&mut self) {
        let is_wanted =
            self.shell.is_some() && !self.kernel.is_terminal_closed && !self.is_terminal_held_back();
        if is_wanted == self.kernel.watches_terminal {
            return;
        }
        let Some(shell) = &self.shell else { return };
        if is_wanted {
            // What cannot be waited for now is tried again.
            self.kernel.watches_terminal =
                self.kernel.rare.add(RareSource::Terminal, &shell.terminal).is_ok();
        } else {
            self.kernel.rare.remove(&shell.terminal);
            self.kernel.watches_terminal = false;
        }
    }

    /// Whether a command on the shell's terminal must wait for its listener.
    fn is_terminal_held_back(&self) -> bool {
        let owner = self.terminal.owner(self.driver.foreground());
        let exec = owner.and_then(|number| self.commands.get(number));
        exec.is_some_and(|exec| self.subscribers.holds_back(exec, Stream::Stdout, &self.commands))
    }

    /// Something was written to the shell's terminal.
    pub(super) fn on_terminal(&mut self) {
        if self.read_terminal() {
            self.look_for_prompt_at_terminal();
        }
    }

    /// Reads everything that is in the shell's terminal now. A read that finds nothing has waited
    /// for the kernel to bring what was written before it.
    pub(super) fn drain_terminal(&mut self) {
        for _ in 0..READS_AT_END {
            if !self.read_terminal() {
                return;
            }
        }
    }

    fn read_terminal(&mut self) -> bool {
        let Some(shell) = &self.shell else { return false };
        let mut buffer = [0; 4096];
        let read = match rustix::io::read(&shell.terminal, &mut buffer) {
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
            // Hung up: the shell is ending, and its end is an event of its own.
            Err(_) => 0,
        };
        self.kernel.is_terminal_closed = read == 0;
        if read == 0 {
            return false;
        }
        let bytes = &buffer[..read];
        self.startup.keep(bytes);
        let foreground = self.driver.foreground();
        if let Some(owner) = self.terminal.owner(foreground) {
            self.take_output(owner, Stream::Stdout, bytes);
        } else {
            self.show(bytes);
        }
        if let Some(exec) = foreground.and_then(|number| self.commands.get_mut(number)) {
            exec.remember_terminal(bytes);
        }
        true
    }

    /// Shows the terminal's own echo of keys that are for the prompt. It comes before the prompt and
    /// is no command's output.
    fn show_echo(&mut self) {
        let mut buffer = [0; 4096];
        for _ in 0..READS_AT_END {
            let Some(shell) = &self.shell else { return };
            match rustix::io::read(&shell.terminal, &mut buffer) {
                Ok(read) if read > 0 => self.show(&buffer[..read]),
                _ => return,
            }
        }
    }

    /// Draws what a command wrote to its terminal, before it is in the journal.
    fn draw(&mut self, number: u64, bytes: &[u8]) {
        let is_attended = self.subscribers.has_writer();
        let Some(exec) = self.commands.get_mut(number) else { return };
        exec.mark_activity();
        let Some(tty) = &mut exec.tty else { return };
        let answers = tty.draw(self.shell.as_ref(), bytes);
        // The terminal of a person who is attached answers itself.
        if !answers.is_empty() && !is_attended {
            tty.answer(answers);
            self.feed(number);
        }
    }

    /// The command is over: its screen stays as it is, the terminal is for the next.
    pub(super) fn leave_terminal(&mut self, number: u64, was_stopped: bool) {
        let tty = self.commands.get_mut(number).and_then(|exec| exec.tty.as_mut());
        let Some(left) = tty.and_then(|tty| tty.leave()) else { return };
        if !was_stopped && self.subscribers.has_writer() {
            // A person who types ahead means the prompt.
            let unread = left.unread();
            if !unread.is_empty() {
                self.show_echo();
            }
            if let Some(console) = &mut self.console {
                console.type_ahead(&[&unread[..], &left.untaken].concat());
            }
        }
        left.clean(was_stopped);
    }

    // Input.

    /// Writes pending input as far as the kernel takes it.
    pub(super) fn feed(&mut self, number: u64) {
        let Some(exec) = self.commands.get_mut(number) else { return };
        let is_running = exec.running().is_some();
        if let Some(tty) = &mut exec.tty {
            if is_running {
                tty.feed(self.shell.as_ref());
            }
            return;
        }
        let Input::Open { write, pending, eof, .. } = &mut exec.input else { return };
        while !pending.is_empty() {
            let Some(pipe) = write else { return };
            match rustix::io::write(&*pipe, pending.as_slices().0) {
                Ok(written) => drop(pending.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    *write = None;
                    pending.clear();
                }
            }
        }
        *pending = VecDeque::new();
        if *eof {
            // The reading end stays: the shell may not have opened it yet.
            *write = None;
        }
    }
}
