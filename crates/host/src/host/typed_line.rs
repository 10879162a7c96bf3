//! What people who are attached type: to the command that runs, or at the prompt.

use rustix::process::Signal;
use trl_protocol::fault::Fault;
use trl_protocol::limits::{DEFAULT_JOURNAL_BYTES, MAX_SECONDS};
use trl_protocol::session::NOBODY_ATTACHED;
use trl_protocol::wire::{FromHost, Mode, Released, RunSpec, Stdin};

use super::Host;
use crate::commands::Requester;
use crate::shell::text;
use crate::terminal::{Console, KeyEffect, LONGEST_LINE};

/// What a person types belongs to no request.
const NOBODY: Requester = Requester { link: 0, req: 0 };

impl Host {
    /// Keys of a person: to the command on the terminal, or to the prompt.
    pub(super) fn on_keys(&mut self, req: u64, keys: &[u8]) -> Result<Option<FromHost>, Fault> {
        let taken = Ok(Some(FromHost::Taken { req }));
        let Some(number) = self.driver.foreground() else {
            if self.console.is_none() && !keys.is_empty() {
                let message = "nobody is attached to this session, so it has no prompt to type at; \
                               attach first, or run the command with exec.run";
                return Err(
                    Fault::invalid(message).with_details(serde_json::json!({ "reason": NOBODY_ATTACHED }))
                );
            }
            if self.commands.queued() == 0 {
                self.type_at_prompt(keys);
            } else {
                self.keep_for_prompt(keys);
            }
            return taken;
        };
        let shell = self.shell.as_ref();
        let Some(exec) = self.commands.get_mut(number) else { return taken };
        if exec.tty.is_some() {
            exec.type_in(shell, keys, false)?;
            self.feed(number);
        } else if let (Some(_), Some(shell)) = (exec.waiting.take(), shell) {
            rustix::io::write(&shell.terminal, keys)
                .map_err(|error| Fault::internal(format!("the terminal refused input: {error}")))?;
        } else if let Some(at) = keys.iter().position(|key| *key == 3) {
            self.signal_command(None, Signal::INT);
            self.keep_for_prompt(&keys[at + 1..]);
        } else {
            self.keep_for_prompt(keys);
        }
        taken
    }

    /// Keeps keys for the next prompt, or for the typed command that is about to start.
    fn keep_for_prompt(&mut self, keys: &[u8]) {
        if let Some(console) = &mut self.console {
            console.type_ahead(keys);
        }
    }

    /// What was typed while something else ran, now that the prompt is there. Only between
    /// events: it may start a command.
    pub(super) fn take_typed_ahead(&mut self) {
        if self.driver.foreground().is_some() || self.commands.queued() > 0 {
            return;
        }
        let Some(console) = self.console.as_mut().filter(|console| console.has_ahead()) else { return };
        let ahead = console.take_ahead();
        self.type_at_prompt(&ahead);
    }

    pub(super) fn prompt_text(&self) -> String {
        let name = self.spec.name.clone().unwrap_or_else(|| self.spec.session_id.to_string());
        let status = match self.console.as_ref().map_or(0, Console::status) {
            0 => String::new(),
            status => format!(" [{status}]"),
        };
        format!("{name} {}{status} $ ", text::shown(self.state.cwd()).replace(char::is_control, "?"))
    }

    /// The prompt below what is there, with the line as far as it has come.
    pub(super) fn show_prompt(&mut self) {
        let Some(console) = &mut self.console else { return };
        console.line_is_gone();
        if !console.is_at_left() {
            self.show(b"\r\n");
        }
        self.draw_line();
    }

    fn draw_line(&mut self) {
        let prompt = self.prompt_text();
        if let Some(console) = &mut self.console {
            console.draw_line(&mut self.subscribers, &prompt);
        }
    }

    fn type_at_prompt(&mut self, keys: &[u8]) {
        let mut edited = false;
        for (at, key) in keys.iter().enumerate() {
            let commands = &self.commands;
            let recall = |back: usize| {
                let lines = commands.all().rev().map(|exec| &exec.spec.command);
                let mut typable =
                    lines.filter(|line| line.len() <= LONGEST_LINE && !line.contains(char::is_control));
                typable.nth(back - 1).cloned()
            };
            let Some(console) = &mut self.console else { return };
            let did = console.type_key(*key, &recall);
            match did {
                None => {}
                Some(KeyEffect::Append(key)) if !edited && self.just_grows() => {
                    self.show(key.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(KeyEffect::Append(_) | KeyEffect::Edit) => edited = true,
                Some(KeyEffect::Clear) => {
                    self.show(b"\x1b[H\x1b[2J");
                    self.show_prompt();
                    edited = false;
                }
                Some(KeyEffect::Drop) => {
                    self.show(b"^C\r\n");
                    self.show_prompt();
                    edited = false;
                }
                Some(KeyEffect::Leave) => return self.release_writer(Released::Left),
                Some(KeyEffect::Enter { text, at_end }) => {
                    self.end_line(&text, at_end && !edited);
                    edited = false;
                    if !text.trim().is_empty() {
                        self.keep_for_prompt(&keys[at + 1..]);
                        return self.run_typed(text);
                    }
                    self.show_prompt();
                }
            }
        }
        if edited {
            self.draw_line();
        }
    }

    fn just_grows(&self) -> bool {
        let prompt = self.prompt_text();
        self.console.as_ref().is_some_and(|console| console.line_just_grows(&prompt))
    }

    /// Output begins below the line, which is drawn first unless it stands there as it was entered.
    fn end_line(&mut self, text: &str, is_drawn: bool) {
        if !is_drawn {
            let erased = self.console.as_ref().map(Console::erased_line).unwrap_or_default();
            self.show(format!("{erased}{}{text}", self.prompt_text()).as_bytes());
        }
        self.show(b"\r\n");
        if let Some(console) = &mut self.console {
            console.line_is_gone();
        }
    }

    /// What a person typed runs as any other command, on the terminal.
    fn run_typed(&mut self, command: String) {
        let run = RunSpec {
            command,
            timeout_ms: Some(0),
            stdin: Stdin::Empty,
            env: Default::default(),
            working_dir: None,
            max_output: DEFAULT_JOURNAL_BYTES,
            mode: Mode::Detached,
            wait_ms: (MAX_SECONDS * 1000.0) as u64,
            background: false,
            tty: true,
            merge_stderr: true,
            replace_env: false,
            run_id: None,
        };
        if let Some(console) = &mut self.console {
            console.set_typed(self.commands.next_number());
        }
        if let Err(fault) = self.on_run(NOBODY, run) {
            self.show(format!("trl: {}\r\n", fault.message).as_bytes());
            self.show_prompt();
        }
    }
}
