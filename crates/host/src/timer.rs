//! One timer for all deadlines, as a descriptor: exact, where `poll`'s own timeout
//! comes a thousandth late.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    armed: Option<Instant>,
}

impl Timer {
    pub fn new() -> io::Result<Timer> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        Ok(Timer { fd, armed: None })
    }

    pub fn arm(&mut self, at: Option<Instant>) -> io::Result<()> {
        // Earlier than needed is fine: whoever wakes looks at the deadlines themselves.
        let in_time = match (self.armed, at) {
            (Some(armed), Some(at)) => armed <= at,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        if in_time {
            return Ok(());
        }
        self.armed = at;
        // Zero would disarm: what is due fires after a nanosecond.
        let wait = at.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1)));
        let value = wait.unwrap_or_default();
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec { tv_sec: value.as_secs() as _, tv_nsec: value.subsec_nanos().into() };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value })?;
        Ok(())
    }

    pub fn fired(&mut self) {
        self.armed = None;
        // Only to clear it: the deadlines themselves say what is due.
        rustix::io::read(&self.fd, &mut [0; 8]).ok();
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
