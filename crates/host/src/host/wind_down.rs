//! The end of a session: every process it ever started is gone before the end is announced. The
//! steps and their times are those of [`crate::shutdown`].

use std::time::Instant;

use rustix::process::Signal;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::FromHost;

use super::Host;
use crate::awaited::Awaited;
use crate::commands::Requester;
use crate::driver::Event;
use crate::shutdown::{Begun, ShutdownStep};
use crate::tree;

impl Host {
    pub(super) fn wind_down(&mut self, requester: Option<Requester>, force: bool, reason: &str) {
        let runs_nothing = self.driver.is_idle() || self.driver.is_at_own_line();
        match self.shutdown.begin(requester, force, reason, Instant::now()) {
            Begun::Before => return,
            Begun::Now => self.drive(Event::EndSession),
        }
        self.close_listener();
        // Whatever happens from here on, nobody is to begin this session again.
        trl_journal::forget_session(self.spec.state_dir.as_ref());
        self.refuse_waiting();
        if force {
            return self.kill_everything();
        }
        let (shell, others) = self.alive();
        // One that runs no command and is alone need not be held still.
        let may_go_on = runs_nothing && others.is_empty() || self.must_finish_printing();
        if !may_go_on {
            stop_all(&shell);
        }
        others.iter().for_each(|process| tree::signal_and_continue(process, Signal::TERM));
        self.consider(shell, others);
    }

    /// Whoever waits for a command hears that it will not come to its own end.
    fn refuse_waiting(&mut self) {
        let fault =
            Fault::new(Code::SessionTerminated, "the session was ended while this command ran or waited");
        let waiting = self.commands.take_requesters();
        let following = self.subscribers.take_followers();
        for requester in waiting.into_iter().chain(following) {
            self.subscribers.refuse(requester, fault.clone());
        }
        self.commands.take_queue();
        self.release_awaiting_state();
    }

    /// What is alive below the host: the shell, and the others without the cage itself, which goes when nothing
    /// is left in it.
    fn alive(&self) -> (Vec<tree::Process>, Vec<tree::Process>) {
        let shell = self.shell_pid();
        let all = tree::descendants(std::process::id() as i32).into_iter();
        all.filter(|process| !process.zombie && !self.cage.is_own(process.pid))
            .partition(|process| Some(process.pid as u32) == shell)
    }

    /// The grace period is over.
    pub(super) fn kill_everything(&mut self) {
        let begun = Instant::now();
        self.cage.kill();
        tree::kill_all(std::process::id() as i32);
        let now = Instant::now();
        if self.shutdown.mark_killed(now, now - begun) {
            self.say_goodbye();
        }
        self.continue_wind_down();
    }

    /// The session is over as soon as nothing below the host is alive.
    pub(super) fn continue_wind_down(&mut self) {
        if !self.shutdown.still_waits() {
            let (shell, others) = self.alive();
            self.consider(shell, others);
        }
    }

    /// The shell is back from printing its state, and is ended like the others.
    pub(super) fn end_shell(&mut self) {
        let (shell, others) = self.alive();
        stop_all(&shell);
        self.consider(shell, others);
    }

    /// Whether the shell is to print its state to the end before it is ended.
    fn must_finish_printing(&self) -> bool {
        self.driver.is_at_own_line() && self.dialect().finishes_printing()
    }

    /// What follows from what is alive below the host.
    fn consider(&mut self, shell: Vec<tree::Process>, others: Vec<tree::Process>) {
        let only_shell = others.is_empty() && !self.must_finish_printing();
        let count = shell.len() + others.len();
        // The shell's end is heard of anyway. Without a descriptor, the next look is when the next step is due.
        let awaited = if others.is_empty() { None } else { Awaited::new(others).ok() };
        match self.shutdown.consider(count, only_shell, awaited) {
            ShutdownStep::Wait => {}
            ShutdownStep::HangUpShell => {
                shell.iter().for_each(|process| tree::signal_and_continue(process, Signal::HUP));
            }
            ShutdownStep::Goodbye => {
                self.drive(Event::AllGone);
                self.cage.close();
                self.say_goodbye();
            }
        }
    }

    fn say_goodbye(&mut self) {
        let session = Some(Box::new(self.info()));
        let Some((requesters, reason)) = self.shutdown.finish() else { return };
        // What remains of the session on disk goes first, so that its end means all of it.
        std::fs::remove_dir_all(&self.spec.state_dir).ok();
        self.subscribers.say_goodbye(&requesters, |req| FromHost::Ended {
            req,
            reason: reason.clone(),
            session: session.clone(),
        });
    }
}

fn stop_all(processes: &[tree::Process]) {
    for process in processes {
        tree::signal(process, Signal::STOP);
    }
}
