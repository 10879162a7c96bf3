//! What an interrupted shell leaves behind.
//!
//! bash that is interrupted between starting a program and waiting for it goes back
//! to its prompt without it: the program runs on, and the next line waits for it.
//! So what lives beside the command is noted before anything is signalled; what
//! shows up in its place afterwards is a stray, and ends with the command.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::host::Host;
use crate::tree::{self, Process};

/// A shell that is silent for this long after an interrupt waits for a stray.
const SILENT: Duration = Duration::from_millis(200);

/// Everything below the shell when a stop began. What is part of the command is
/// signalled step by step; the others are left alone, if they stay what they were.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<(i32, u64), Found>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Program,
    /// Forked from the shell, and nothing else yet: it may be about to become the
    /// program that the shell would have waited for.
    Fork,
}

/// A stop whose command is over, until the shell has shown that it goes on.
#[derive(Debug)]
pub(crate) struct Aftermath {
    seen: Seen,
    pub(crate) next: Instant,
}

impl Seen {
    pub(crate) fn now(shell: Pid, job: &[Process]) -> Seen {
        let shell = shell.as_raw_nonzero().get();
        let image = image(shell);
        let job: BTreeSet<(i32, u64)> = job.iter().map(identity).collect();
        let all = tree::descendants(shell).into_iter().map(|process| {
            let is_fork = process.parent == shell
                && !job.contains(&identity(&process))
                && self::image(process.pid) == image;
            (identity(&process), if is_fork { Found::Fork } else { Found::Program })
        });
        Seen(all.collect())
    }

    /// What has come since, or has become the program that the shell forgot.
    pub(crate) fn strays(&self, shell: Pid) -> Vec<Process> {
        let shell = shell.as_raw_nonzero().get();
        let image = image(shell);
        let is_stray = |process: &Process| match self.0.get(&identity(process)) {
            Some(Found::Fork) => self::image(process.pid) != image,
            Some(Found::Program) => false,
            None => process.parent == shell,
        };
        with_descendants(tree::descendants(shell), is_stray)
    }
}

fn identity(process: &Process) -> (i32, u64) {
    (process.pid, process.started)
}

/// Those chosen and all below them. Parents come before children, so one pass finds every level.
fn with_descendants(all: Vec<Process>, chosen: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut pids = BTreeSet::new();
    let is_one = |process: &Process| {
        let is_one = pids.contains(&process.parent) || chosen(process);
        if is_one {
            pids.insert(process.pid);
        }
        is_one
    };
    all.into_iter().filter(|process| !process.zombie).filter(is_one).collect()
}

/// A program's words, by which a fork of the shell is told from what it becomes.
fn image(pid: i32) -> Option<Vec<u8>> {
    trl_sys::process::command_line(pid)
}

impl Host {
    /// The command is over; its strays may still be on their way.
    pub(crate) fn watch_aftermath(&mut self, seen: Seen) {
        self.aftermath = Some(Aftermath { seen, next: Instant::now() + SILENT });
    }

    /// The shell has gone on by itself.
    pub(crate) fn close_aftermath(&mut self) {
        if let (Some(aftermath), Some(shell)) = (self.aftermath.take(), &self.shell) {
            end(&aftermath.seen.strays(shell.pid));
        }
    }

    /// The shell is silent: it waits for what it should have forgotten.
    pub(crate) fn press_aftermath(&mut self) {
        let job = self.job(None).processes;
        match (&mut self.aftermath, &self.shell) {
            (Some(aftermath), Some(shell)) => {
                aftermath.next = Instant::now() + SILENT;
                end(&aftermath.seen.strays(shell.pid));
                end(&job);
            }
            _ => self.aftermath = None,
        }
    }
}

fn end(processes: &[Process]) {
    for process in processes {
        tree::signal(process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_stray_is_one_too() {
        let process =
            |pid, parent| Process { pid, parent, group: pid, session: pid, started: 1, zombie: false };
        let all = vec![process(2, 1), process(3, 1), process(4, 3), process(5, 4), process(6, 2)];
        let strays = with_descendants(all, |process| process.pid == 3);
        assert_eq!(strays.iter().map(|process| process.pid).collect::<Vec<_>>(), [3, 4, 5]);
    }
}
