//! Descriptors that are hardly ever ready, behind a single one. The host looks at everything that it waits for each
//! time, and a command takes little longer than that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

/// Readable when one of them is.
#[derive(Debug)]
pub(crate) struct RareSources {
    epoll: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RareSource {
    Children,
    Terminate,
    Timer,
    Listener,
    /// The shell's terminal, which only commands that ask for one write to.
    Terminal,
}

impl RareSource {
    const ALL: [RareSource; 5] = [
        RareSource::Children,
        RareSource::Terminate,
        RareSource::Timer,
        RareSource::Listener,
        RareSource::Terminal,
    ];
}

impl RareSources {
    pub(crate) fn new() -> io::Result<RareSources> {
        Ok(RareSources { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// One that takes nothing.
    #[cfg(test)]
    pub(crate) fn broken() -> RareSources {
        RareSources { epoll: crate::null().unwrap() }
    }

    pub(crate) fn add(&self, source: RareSource, fd: &impl AsFd) -> io::Result<()> {
        let key = epoll::EventData::new_u64(source as u64);
        Ok(epoll::add(&self.epoll, fd, key, epoll::EventFlags::IN)?)
    }

    /// To be called before it is closed: a child that is a copy of the host may still have it open.
    pub(crate) fn remove(&self, fd: &impl AsFd) {
        // One that was never added need not be removed.
        epoll::delete(&self.epoll, fd).ok();
    }

    /// Those that are ready, in the order in which they are handled.
    pub(crate) fn ready(&self) -> Vec<RareSource> {
        let mut events = Vec::with_capacity(RareSource::ALL.len());
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&Timespec::default())).is_err() {
            return Vec::new();
        }
        let is_ready = |source: &RareSource| {
            events.iter().any(|event: &epoll::Event| event.data.u64() == *source as u64)
        };
        RareSource::ALL.into_iter().filter(is_ready).collect()
    }
}

impl AsFd for RareSources {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_ready_is_told_for_as_long_as_it_is_and_not_when_it_was_removed() {
        let rare = RareSources::new().unwrap();
        let (children, mut child_ends) = UnixStream::pair().unwrap();
        let (listener, mut connects) = UnixStream::pair().unwrap();
        rare.add(RareSource::Listener, &listener).unwrap();
        rare.add(RareSource::Children, &children).unwrap();
        assert!(rare.ready().is_empty());
        connects.write_all(b"x").unwrap();
        assert_eq!(rare.ready(), [RareSource::Listener]);
        child_ends.write_all(b"x").unwrap();
        assert_eq!(rare.ready(), [RareSource::Children, RareSource::Listener]);
        assert_eq!(rare.ready(), [RareSource::Children, RareSource::Listener]);
        // As a child has it that was forked before.
        let _copy = listener.try_clone().unwrap();
        rare.remove(&listener);
        drop(listener);
        assert_eq!(rare.ready(), [RareSource::Children]);
    }
}
