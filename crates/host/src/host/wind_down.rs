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
        match self.shutdown.begin(requester, force, reason, Instant::now()) {
            Begun::Before => return,
            Begun::Now => self.drive(Event::EndSession),
        }
        self.close_listener();
        // Whatever happens from here on, nobody is to begin this session again.
        trl_journal::forget_session(self.spec.state_dir.as_ref());
        self.refuse_waiting();
        if force {
            self.kill_everything();
        } else {
            self.terminate_everything();
        }
        self.continue_wind_down();
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

    /// Everything below the host but the cage itself, which goes when nothing is left in it.
    fn descendants(&self) -> Vec<tree::Process> {
        let mut all = tree::descendants(std::process::id() as i32);
        all.retain(|process| !self.cage.is_own(process.pid));
        all
    }

    /// TERM to all but the shell, which is stopped.
    fn terminate_everything(&self) {
        let shell = self.shell_pid();
        for process in self.descendants() {
            if Some(process.pid as u32) == shell {
                tree::signal(&process, Signal::STOP);
            } else {
                tree::signal(&process, Signal::TERM);
                tree::signal(&process, Signal::CONT);
            }
        }
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
        if self.shutdown.still_waits() {
            return;
        }
        let shell = self.shell_pid();
        let alive = self.descendants().into_iter().filter(|process| !process.zombie);
        let (shells, others): (Vec<_>, Vec<_>) = alive.partition(|process| Some(process.pid as u32) == shell);
        let (count, only_shell) = (shells.len() + others.len(), others.is_empty());
        // Without a descriptor for it, the next look is when the next step is due.
        let awaited = Awaited::new(if only_shell { shells.clone() } else { others }).ok();
        match self.shutdown.consider(count, only_shell, awaited) {
            ShutdownStep::Wait => {}
            ShutdownStep::HangUpShell => {
                for shell in &shells {
                    tree::signal(shell, Signal::HUP);
                    tree::signal(shell, Signal::CONT);
                }
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
