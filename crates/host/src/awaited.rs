//! Processes whose end is awaited, however many there are.
//!
//! One descriptor tells that some of them have ended. Only so many are watched at a time, so that
//! thousands need neither thousands of descriptors nor a look at each whenever one of them ends:
//! the whole costs one look per process.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::tree::{self, Process};

/// Watched at a time.
const WINDOW: usize = 128;

#[derive(Debug)]
pub(crate) struct Awaited {
    epoll: OwnedFd,
    watched: BTreeMap<u64, OwnedFd>,
    /// Not watched yet.
    rest: Vec<Process>,
    next_key: u64,
}

impl Awaited {
    pub(crate) fn new(processes: Vec<Process>) -> io::Result<Awaited> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut awaited = Awaited { epoll, watched: BTreeMap::new(), rest: processes, next_key: 0 };
        awaited.fill();
        Ok(awaited)
    }

    /// Takes note of who has ended. True once all have.
    pub(crate) fn are_gone(&mut self) -> bool {
        let mut events = Vec::with_capacity(WINDOW);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once)).is_ok() {
            for event in &events {
                // Closing it ends the watch.
                self.watched.remove(&event.data.u64());
            }
        }
        self.fill();
        self.watched.is_empty()
    }

    fn fill(&mut self) {
        while self.watched.len() < WINDOW {
            let Some(process) = self.rest.pop() else { return };
            let Some(fd) = tree::watch(&process) else { continue };
            let key = epoll::EventData::new_u64(self.next_key);
            if epoll::add(&self.epoll, &fd, key, epoll::EventFlags::IN).is_ok() {
                self.watched.insert(self.next_key, fd);
                self.next_key += 1;
            }
        }
    }
}

impl AsFd for Awaited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn more_than_are_watched_at_a_time_are_awaited_all() {
        let mut children: Vec<Child> =
            (0..WINDOW + 20).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect();
        let found = children.iter().filter_map(|child| tree::look(child.id() as i32)).collect();
        let mut awaited = Awaited::new(found).unwrap();
        assert!(!awaited.are_gone());
        let last = children.pop().unwrap();
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!awaited.are_gone(), "one of them lives");
        let mut last = last;
        last.kill().unwrap();
        last.wait().unwrap();
        assert!(awaited.are_gone());
    }
}
