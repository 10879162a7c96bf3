//! The host's side: a cage with a pid 1 that starts programs for it, and a holder through which these
//! programs open the host's descriptors by path.
//!
//! A path below the host's own `/proc/<pid>/fd` leads nowhere from inside. So descriptors that a shell is to
//! open are handed to a process inside that does nothing but hold them.

pub(in crate::linux) mod channel;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use rustix::process::{Signal, pidfd_send_signal};

use super::init::{Answer, Ask, Ending, Program, StreamFrom};
use super::namespaces::{Fresh, Side, split};
use super::{Extras, Part, Step, enter_here, enter_namespaces, init};
use crate::plan::Plan;
use channel::Received;

/// Pid 1 answers in microseconds; on a machine that is out of breath it takes longer.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// How much of a plan is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    Namespaces,
    /// Landlock and seccomp alone.
    InPlace,
}

/// Everything of a session that runs, behind its pid 1.
#[derive(Debug)]
pub struct Jail {
    init: OwnedFd,
    /// Pid 1, as seen from here.
    pid: i32,
    pidfd: Option<OwnedFd>,
    holder: Option<Holder>,
    /// A socket of the inside for a proxy outside.
    listener: Option<OwnedFd>,
    /// Inside and here.
    pids: BTreeMap<i32, i32>,
    ended: VecDeque<(i32, Ending)>,
}

#[derive(Debug)]
struct Holder {
    socket: OwnedFd,
    pid_inside: i32,
    /// As seen from here.
    pid: i32,
    /// To be let go with the next message.
    closed: Vec<i32>,
    offer: Offer,
}

/// Descriptors that were sent to the holder before anybody needs them.
#[derive(Debug, Default)]
enum Offer {
    #[default]
    None,
    /// So many. The holder has not been heard yet.
    Sent(usize),
    Held(Vec<Shown>),
}

impl Holder {
    fn send(&mut self, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        channel::send(&self.socket, &std::mem::take(&mut self.closed), fds)
    }

    /// Its answer to so many descriptors that were sent to it.
    fn held(&self, count: usize) -> io::Result<Vec<Shown>> {
        wait_for(&self.socket)?;
        let Received { message: numbers, .. }: Received<Vec<i32>> =
            channel::receive(&self.socket)?.ok_or_else(broken)?;
        if numbers.len() != count {
            // It may not have more open files, so the kernel has dropped some.
            return Err(rustix::io::Errno::MFILE.into());
        }
        let holder = self.pid_inside;
        let path = |number: i32| format!("/proc/{holder}/fd/{number}");
        Ok(numbers.into_iter().map(|number| Shown { path: path(number), number, holder }).collect())
    }

    /// Answers come in turn: one to an offer is taken before the next descriptors are sent.
    fn hear_offer(&mut self) -> io::Result<()> {
        if let Offer::Sent(count) = self.offer {
            self.offer = Offer::Held(self.held(count)?);
        }
        Ok(())
    }

    /// Whether it is still there: anything inside may end it.
    fn lives(&self) -> bool {
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.socket, &mut [0; 1], peek) == Err(rustix::io::Errno::AGAIN)
    }
}

/// A program that was started inside.
#[derive(Debug)]
pub struct Spawned {
    /// As seen from here.
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub terminal: Option<OwnedFd>,
}

/// A descriptor that can be opened inside by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub path: String,
    number: i32,
    holder: i32,
}

impl Jail {
    /// Makes a cage. Only in a process with one thread.
    pub fn enter(plan: &Plan, strength: Strength, extras: Extras) -> Result<Jail, Step> {
        super::check()?;
        let io_step = |error: io::Error| Step::new(Part::Namespaces, "talk to pid 1", error);
        let (ours, theirs) = channel::pair().map_err(io_step)?;
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let side = match strength {
            Strength::Namespaces => split(Fresh { network: plan.own_network })?,
            Strength::InPlace => fork()?,
        };
        let (pid, pidfd) = match side {
            Side::Outside { pid, pidfd } => (pid, pidfd),
            Side::Inside => {
                drop(ours);
                become_init(plan, strength, extras, theirs, user, group)
            }
        };
        drop(theirs);
        let mut jail = Jail {
            init: ours,
            pid,
            pidfd: Some(pidfd),
            holder: None,
            listener: None,
            pids: BTreeMap::new(),
            ended: VecDeque::new(),
        };
        match jail.answer() {
            Ok(Received { message: Answer::Entered, fds }) => {
                jail.listener = fds.into_iter().next();
                Ok(jail)
            }
            Ok(Received { message: Answer::NotEntered(step), .. }) => Err(step),
            Ok(Received { message: other, .. }) => {
                Err(Step::new(Part::Namespaces, "talk to pid 1", format!("{other:?}")))
            }
            Err(error) => Err(io_step(error)),
        }
    }

    /// Pid 1, as seen from here.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The socket on which programs inside reach a proxy, to be accepted from here. Given once.
    pub fn take_listener(&mut self) -> Option<OwnedFd> {
        self.listener.take()
    }

    /// Whether a process, as seen from here, belongs to the cage and not to what runs in it.
    pub fn is_own(&self, pid: i32) -> bool {
        pid == self.pid || self.holder.as_ref().is_some_and(|holder| holder.pid == pid)
    }

    /// The pid of the holder, as seen from inside.
    pub fn holder_inside(&self) -> Option<i32> {
        self.holder.as_ref().map(|holder| holder.pid_inside)
    }

    /// Starts a program inside; `given` are its streams that come from here. `size` is that of the terminal, if it gets
    /// one: rows and columns.
    pub fn spawn(
        &mut self,
        program: &Program,
        streams: [StreamFrom; 3],
        size: (u16, u16),
        given: &[BorrowedFd<'_>],
    ) -> io::Result<Spawned> {
        let text = channel::file_with(&program.encode())?;
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(text.as_fd()).chain(given.iter().copied()).collect();
        let (pid, fds) = self.ask(&Ask::Spawn { streams, size }, &fds)?;
        let mut fds = fds.into_iter();
        let pidfd = fds.next().ok_or_else(broken)?;
        let here = pid_of(&pidfd)?;
        self.pids.insert(pid, here);
        Ok(Spawned { pid: here, pidfd, terminal: fds.next() })
    }

    /// Has a child of pid 1 do what [`Extras::work`] does; it answers over `answer`.
    pub fn work(&mut self, request: &[u8], answer: BorrowedFd<'_>) -> io::Result<()> {
        let text = channel::file_with(request)?;
        self.ask(&Ask::Work, &[text.as_fd(), answer]).map(drop)
    }

    /// Makes descriptors openable inside. They stay so until [`Jail::conceal`].
    pub fn show(&mut self, fds: &[BorrowedFd<'_>]) -> io::Result<Vec<Shown>> {
        let mut shown = Vec::new();
        for some in fds.chunks(trl_sys::descriptors::MOST) {
            shown.extend(self.show_some(some).or_else(|_| {
                // Somebody has ended the holder: a new one takes its place.
                self.holder = None;
                self.show_some(some)
            })?);
        }
        Ok(shown)
    }

    fn show_some(&mut self, fds: &[BorrowedFd<'_>]) -> io::Result<Vec<Shown>> {
        let mut holder = match self.holder.take() {
            Some(holder) => holder,
            None => self.start_holder()?,
        };
        holder.hear_offer()?;
        holder.send(fds)?;
        let shown = holder.held(fds.len())?;
        self.holder = Some(holder);
        Ok(shown)
    }

    /// Makes descriptors openable inside, for [`Jail::take_offer`], without waiting. An earlier offer that
    /// was not taken is let go.
    pub fn offer(&mut self, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut holder = match self.holder.take() {
            Some(holder) => holder,
            None => self.start_holder()?,
        };
        holder.hear_offer()?;
        if let Offer::Held(unused) = std::mem::take(&mut holder.offer) {
            holder.closed.extend(unused.iter().map(|shown| shown.number));
        }
        holder.send(fds)?;
        holder.offer = Offer::Sent(fds.len());
        self.holder = Some(holder);
        Ok(())
    }

    /// What was offered last. None if nothing was, or if the holder is gone.
    pub fn take_offer(&mut self) -> Option<Vec<Shown>> {
        let holder = self.holder.as_mut()?;
        if holder.hear_offer().is_err() || !holder.lives() {
            // An answer that comes late would be taken for one to what is sent next.
            self.holder = None;
            return None;
        }
        match std::mem::take(&mut holder.offer) {
            Offer::Held(shown) => Some(shown),
            Offer::None | Offer::Sent(_) => None,
        }
    }

    /// The holder lets go of them, with the next that it is given at the latest.
    pub fn conceal(&mut self, shown: &[Shown], at_once: bool) {
        let Some(holder) = &mut self.holder else { return };
        let own = shown.iter().filter(|shown| shown.holder == holder.pid_inside);
        holder.closed.extend(own.map(|shown| shown.number));
        if at_once && !holder.closed.is_empty() {
            // Without a holder there is nothing to be let go.
            holder.send(&[]).ok();
        }
    }

    fn start_holder(&mut self) -> io::Result<Holder> {
        let (ours, theirs) = channel::pair()?;
        let (pid_inside, fds) = self.ask(&Ask::Hold, &[theirs.as_fd()])?;
        let pid = pid_of(fds.first().ok_or_else(broken)?)?;
        Ok(Holder { socket: ours, pid_inside, pid, closed: Vec::new(), offer: Offer::None })
    }

    fn ask(&mut self, ask: &Ask, fds: &[BorrowedFd<'_>]) -> io::Result<(i32, Vec<OwnedFd>)> {
        channel::send(&self.init, ask, fds)?;
        loop {
            let Received { message, fds } = self.answer()?;
            match message {
                Answer::Started { pid } => return Ok((pid, fds)),
                Answer::NotStarted { errno } => return Err(io::Error::from_raw_os_error(errno)),
                Answer::Ended { pid, how } => self.note_end(pid, how),
                Answer::Entered | Answer::NotEntered(_) => return Err(broken()),
            }
        }
    }

    fn answer(&self) -> io::Result<Received<Answer>> {
        wait_for(&self.init)?;
        channel::receive(&self.init)?.ok_or_else(broken)
    }

    fn note_end(&mut self, pid: i32, how: Ending) {
        if let Some(here) = self.pids.remove(&pid) {
            self.ended.push_back((here, how));
        }
    }

    /// Who has ended since the last time: of those that were started from here. False when pid 1 is gone.
    pub fn hear(&mut self) -> bool {
        loop {
            match channel::receive_with::<Answer>(&self.init, RecvFlags::DONTWAIT) {
                Ok(Some(Received { message: Answer::Ended { pid, how }, .. })) => self.note_end(pid, how),
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// One that has ended, as seen from here.
    pub fn next_ended(&mut self) -> Option<(i32, Ending)> {
        self.ended.pop_front()
    }

    /// Ends everything inside, and waits until it is gone.
    pub fn end(self) {
        self.kill();
        if let Some(pidfd) = &self.pidfd {
            // Nothing that is stuck in the kernel is waited for for ever.
            wait_for(pidfd).ok();
        }
        let pid = rustix::process::Pid::from_raw(self.pid);
        rustix::process::waitpid(pid, rustix::process::WaitOptions::NOHANG).ok();
    }

    /// Ends everything inside at once.
    pub fn kill(&self) {
        if let Some(pidfd) = &self.pidfd {
            // Gone already is what was wanted.
            pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
    }
}

impl AsFd for Jail {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.init.as_fd()
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "pid 1 of the session is gone")
}

fn wait_for(socket: &OwnedFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A child without namespaces, with a handle on it.
fn fork() -> Result<Side, Step> {
    let step = |error: io::Error| Step::new(Part::Namespaces, "start a process", error);
    // SAFETY: there is only this thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(step(io::Error::last_os_error())),
        0 => Ok(Side::Inside),
        pid => {
            let handle = rustix::process::Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
            let pidfd = handle
                .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()))
                .map_err(|error| step(error.into()))?;
            Ok(Side::Outside { pid, pidfd })
        }
    }
}

/// Enters the plan and serves. What fails on the way is told to the host.
fn become_init(plan: &Plan, strength: Strength, extras: Extras, socket: OwnedFd, user: u32, group: u32) -> ! {
    let entered = match strength {
        Strength::Namespaces => enter_namespaces(plan, &extras, user, group),
        Strength::InPlace => {
            // What it starts and what that leaves behind stays below it.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok();
            enter_here(plan, &extras).map(|()| None)
        }
    };
    let work = extras.work;
    drop(extras);
    let sent = match entered {
        Ok(listener) => {
            let fds: Vec<BorrowedFd<'_>> = listener.iter().map(OwnedFd::as_fd).collect();
            channel::send(&socket, &Answer::Entered, &fds).is_ok()
        }
        Err(step) => {
            channel::send(&socket, &Answer::NotEntered(step), &[]).ok();
            false
        }
    };
    if !sent {
        std::process::exit(1);
    }
    init::close_all_but(&socket);
    init::default_signals();
    init::serve(socket, work)
}

/// The pid of what a pidfd refers to, as seen from here.
fn pid_of(pidfd: &OwnedFd) -> io::Result<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|pid| pid.trim().parse().ok());
    pid.ok_or_else(broken)
}
