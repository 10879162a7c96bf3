//! `exec.resize` and `exec.screen`.

use rustix::termios::Winsize;
use trl_protocol::exec::Screen;
use trl_protocol::fault::Fault;
use trl_protocol::ids::ExecId;
use trl_protocol::wire::FromHost;

use super::Host;
use crate::commands::{Exec, Phase};
use crate::terminal::{Tty, View};

impl Host {
    pub(super) fn on_resize(
        &mut self,
        req: u64,
        number: u64,
        (rows, cols): (u16, u16),
    ) -> Result<Option<FromHost>, Fault> {
        self.known(number)?;
        let Some(exec) = self.commands.get_mut(number) else { return Ok(None) };
        let is_over = matches!(exec.phase, Phase::Finished { .. });
        let tty = exec.tty.as_mut().ok_or_else(no_terminal)?;
        if is_over {
            return Err(Fault::invalid("the command has finished; its terminal has no size any more"));
        }
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let set = tty.master(self.shell.as_ref()).map(|fd| rustix::termios::tcsetwinsize(fd, size));
        match set {
            Some(Ok(())) => {}
            // The shell is being replaced; the new terminal begins with its own size.
            None => {
                return Err(Fault::invalid("the command has no terminal yet; resize it when it has started"));
            }
            Some(Err(error)) => {
                return Err(Fault::internal(format!("the terminal refused its size: {error}")));
            }
        }
        if !tty.is_own() {
            self.terminal.set_size(size);
            if let Some(console) = &mut self.console {
                console.resize(size);
            }
        }
        tty.resize(size);
        exec.mark_activity();
        Ok(Some(FromHost::Resized { req, exec: number }))
    }

    pub(super) fn on_screen(&mut self, req: u64, number: Option<u64>) -> Result<Option<FromHost>, Fault> {
        let number = match number {
            Some(number) => number,
            None => self.shown().ok_or_else(|| {
                Fault::invalid("no command of this session has run on a terminal; run one with tty:true")
            })?,
        };
        self.known(number)?;
        self.look_for_waiting(number);
        let exec = self.known(number)?;
        let tty = exec.tty.as_ref().ok_or_else(no_terminal)?;
        let exec_id = ExecId { session: self.spec.session_id, number };
        Ok(Some(FromHost::Screen { req, screen: Box::new(screen_of(exec_id, tty, exec)) }))
    }

    /// The command whose screen is the session's: the one that runs, else the last.
    fn shown(&self) -> Option<u64> {
        let on_terminal = || self.commands.all().rev().filter(|exec| exec.tty.is_some());
        let running = on_terminal().find(|exec| exec.running().is_some());
        running.or_else(|| on_terminal().next()).map(|exec| exec.number)
    }
}

fn no_terminal() -> Fault {
    Fault::invalid("this command is not on a terminal; start it with tty:true")
}

fn screen_of(exec_id: ExecId, tty: &Tty, exec: &Exec) -> Screen {
    let View { rows, cols, cursor, lines, title, alternate, bracketed_paste, application_cursor } =
        tty.view();
    Screen {
        exec_id,
        rows,
        cols,
        cursor,
        lines,
        title,
        alternate,
        bracketed_paste,
        application_cursor,
        waiting_for_input: exec.waiting.clone(),
    }
}
