//! The end of a session: every process it ever started is gone before it is said so.
//!
//! The shell is stopped, so that it neither goes on with its text nor takes its
//! terminal from under the others; everything else gets TERM and a grace period.
//! When only the shell is left it gets HUP, with the rest of the grace for its own
//! traps. Then KILL for whatever is left, until there is nothing below the host any
//! more. The host is a subreaper, so there is nowhere to hide.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::FromHost;

use crate::awaited::Awaited;
use crate::exec::Requester;
use crate::host::{Host, Stage};
use crate::tree;

const GRACE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(50);
/// Processes that KILL does not end within this are stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Ending {
    requesters: Vec<Requester>,
    reason: String,
    pub(crate) next: Instant,
    give_up: Instant,
    forced: bool,
    /// Everything that lived when it was last looked.
    pub(crate) awaited: Option<Awaited>,
    shell_told: bool,
}

impl Host {
    /// Which limit has ended the session, and what allows more.
    pub(crate) fn why_over(&self, now: Instant) -> String {
        let ttl = self.spec.ttl_s;
        if ttl > 0.0 && now.duration_since(self.created).as_secs_f64() >= ttl {
            return format!("it was older than {ttl} s; TRL_SESSION_TTL_SEC of the daemon allows more");
        }
        let idle = self.spec.idle_timeout_s;
        format!(
            "it had no command for {idle} s; idle_timeout_s of session.create, or TRL_MAX_IDLE_SEC, allows more"
        )
    }

    pub(crate) fn wind_down(&mut self, requester: Option<Requester>, force: bool, reason: &str) {
        let now = Instant::now();
        if let Some(ending) = &mut self.ending {
            ending.requesters.extend(requester);
            if force && !ending.forced {
                ending.next = now;
            }
            return;
        }
        self.ending = Some(Ending {
            requesters: requester.into_iter().collect(),
            reason: reason.to_owned(),
            next: if force { now } else { now + GRACE },
            give_up: now + GRACE + GIVE_UP,
            forced: force,
            awaited: None,
            shell_told: false,
        });
        self.close_listener();
        // Whatever happens from here on, nobody is to begin this session again.
        trl_journal::forget_session(self.spec.state_dir.as_ref());
        self.refuse_waiting();
        if force {
            self.press_on();
        } else {
            let shell = self.shell_pid();
            for process in tree::descendants(std::process::id() as i32) {
                if Some(process.pid as u32) == shell {
                    tree::signal(&process, Signal::STOP);
                } else {
                    tree::signal(&process, Signal::TERM);
                    tree::signal(&process, Signal::CONT);
                }
            }
        }
        self.go_on_winding_down();
    }

    /// Whoever waits for a command is told that it will not come to its own end.
    fn refuse_waiting(&mut self) {
        let fault =
            Fault::new(Code::SessionTerminated, "the session was ended while this command ran or waited");
        let waiting: Vec<Requester> =
            self.execs.values_mut().filter_map(|exec| exec.requester.take()).collect();
        let following: Vec<Requester> =
            self.subscriptions.drain(..).map(|s| Requester { link: s.link, req: s.req }).collect();
        for requester in waiting.into_iter().chain(following) {
            self.send(requester.link, &FromHost::Fault { req: requester.req, fault: fault.clone() });
        }
        self.queue.clear();
        self.let_go_on();
    }

    /// The grace is over.
    pub(crate) fn press_on(&mut self) {
        let begun = Instant::now();
        tree::kill_all(std::process::id() as i32);
        let now = Instant::now();
        if let Some(ending) = &mut self.ending {
            ending.awaited = None;
            // Looking takes longer the more there are; they need the time to end themselves.
            ending.next = now + AGAIN.max(4 * (now - begun));
            ending.forced = true;
            if now > ending.give_up {
                ending
                    .reason
                    .push_str("; some of its processes are stuck in the kernel and could not be ended");
                self.say_goodbye();
            }
        }
        self.go_on_winding_down();
    }

    /// Over as soon as nothing below the host is alive.
    pub(crate) fn go_on_winding_down(&mut self) {
        let shell = self.shell_pid();
        let Some(ending) = self.ending.as_mut().filter(|_| !self.over) else { return };
        if ending.awaited.as_mut().is_some_and(|awaited| !awaited.are_gone()) {
            return;
        }
        let alive: Vec<_> =
            tree::descendants(std::process::id() as i32).into_iter().filter(|p| !p.zombie).collect();
        let (shells, others): (Vec<_>, Vec<_>) =
            alive.iter().copied().partition(|process| Some(process.pid as u32) == shell);
        // Without a descriptor for it, the next look is when the time for it comes.
        ending.awaited = Awaited::new(if others.is_empty() { shells } else { others }).ok();
        if alive.is_empty() {
            self.stage = Stage::Dead;
            self.say_goodbye();
        } else if let ([last], false) = (&alive[..], ending.shell_told)
            && Some(last.pid as u32) == shell
        {
            ending.shell_told = true;
            tree::signal(last, Signal::HUP);
            tree::signal(last, Signal::CONT);
        }
    }

    fn say_goodbye(&mut self) {
        let Some(ending) = &self.ending else { return };
        let (requesters, reason) = (ending.requesters.clone(), ending.reason.clone());
        let session = Some(Box::new(self.info()));
        // What remains of the session on disk goes first, so that its end means all of it.
        std::fs::remove_dir_all(&self.spec.state_dir).ok();
        let links: Vec<u64> = self.links.keys().copied().collect();
        for id in links {
            let asked: Vec<u64> = requesters.iter().filter(|r| r.link == id).map(|r| r.req).collect();
            let Some(link) = self.links.get_mut(&id) else { continue };
            for req in if asked.is_empty() { vec![0] } else { asked } {
                link.send(&FromHost::Ended { req, reason: reason.clone(), session: session.clone() });
            }
            link.flush_waiting();
        }
        self.over = true;
    }
}
