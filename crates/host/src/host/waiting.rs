//! Commands that wait for input: when they are looked at, and who hears of it.

use std::time::Instant;

use trl_protocol::exec::Stream;
use trl_protocol::wire::FromHost;

use super::Host;
use crate::commands::{Exec, Input};
use crate::terminal::{NextLook, Reading, is_reading, open_line};

/// How much of a stream is searched for a prompt.
const TAIL: usize = 256;

impl Host {
    /// Looks at commands that have been quiet for a while.
    pub(super) fn look_at_quiet_commands(&mut self, now: Instant) {
        let is_due =
            |exec: &&Exec| exec.running().is_some() && exec.next_look.is_some_and(|look| look.at <= now);
        let numbers: Vec<u64> = self.commands.active().filter(is_due).map(|exec| exec.number).collect();
        for number in numbers {
            self.look_for_waiting(number);
            let Some(exec) = self.commands.get_mut(number) else { continue };
            exec.next_look = match exec.waiting {
                Some(_) => None,
                None => exec.next_look.and_then(NextLook::next),
            };
        }
    }

    /// Finds out whether a running command waits, and tells those who follow it if that is new.
    pub(super) fn look_for_waiting(&mut self, number: u64) {
        let Some(exec) = self.commands.get(number) else { return };
        let Some(running) = exec.running() else { return };
        let in_shell = running.background.is_none();
        let mut pids: Vec<i32> =
            self.job(Some(running)).processes.iter().map(|process| process.pid).collect();
        if let (true, Some(shell)) = (in_shell, &self.shell) {
            pids.push(shell.raw_pid());
        }
        let reading = is_reading(&pids, &exec.input_sources(self.shell.as_ref()));
        if reading == Reading::Yes && in_shell {
            // Its prompt may be in the terminal, and not have been read yet.
            self.drain_terminal();
        }
        let Some(exec) = self.commands.get(number) else { return };
        let waiting = match reading {
            Reading::Yes => Some(self.prompt_of(exec)),
            Reading::No => None,
            Reading::Unknown => Some(exec.shown_prompt()).filter(|prompt| !prompt.is_empty()),
        };
        let by_pipe = matches!(exec.input, Input::Open { .. });
        let Some(exec) = self.commands.get_mut(number) else { return };
        let is_new = waiting.is_some() && exec.waiting.is_none();
        exec.waiting = waiting;
        // Whoever keeps a pipe open knows that it is read; a terminal asks unexpectedly.
        if let (true, false, Some(prompt)) = (is_new, by_pipe, exec.waiting.clone()) {
            for who in self.subscribers.followers_of(number) {
                let waiting = FromHost::Waiting { req: who.req, exec: number, prompt: prompt.clone() };
                self.subscribers.send(who.link, &waiting);
            }
        }
    }

    /// The open line that the command wrote last: on its terminal, or where `read -p` asks.
    fn prompt_of(&self, exec: &Exec) -> String {
        let shown = exec.shown_prompt();
        if !shown.is_empty() {
            return shown;
        }
        let mut tail = [0; TAIL];
        let read = self.commands.tail(exec, Stream::Stderr, &mut tail);
        open_line(&tail[..read])
    }
}
