//! Stray processes that an interrupted shell leaves behind.
//!
//! bash that is interrupted between starting a program and waiting for it goes back to its prompt
//! without the program, which runs on, and the next line waits for it. So the processes below the
//! shell are listed before anything is signalled. A process that appears afterwards is a stray and
//! ends with the command.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal};

use crate::tree::{self, Process};

/// Everything below the shell when a stop began. What is part of the command is
/// signalled step by step; the others are left alone, if they stay what they were.
#[derive(Debug, Default)]
pub(crate) struct ProcessSnapshot(BTreeMap<(i32, u64), Found>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Program,
    /// Forked from the shell, and nothing else yet: it may be about to become the
    /// program that the shell would have waited for.
    Fork,
}

impl ProcessSnapshot {
    pub(crate) fn now(shell: Pid, job: &[Process]) -> ProcessSnapshot {
        let shell = shell.as_raw_nonzero().get();
        let image = image(shell);
        let job: BTreeSet<(i32, u64)> = job.iter().map(Process::identity).collect();
        let all = tree::descendants(shell).into_iter().map(|process| {
            let is_fork = process.parent == shell
                && !job.contains(&process.identity())
                && self::image(process.pid) == image;
            (process.identity(), if is_fork { Found::Fork } else { Found::Program })
        });
        ProcessSnapshot(all.collect())
    }

    /// What has come since, or has become the program that the shell forgot.
    pub(crate) fn strays(&self, shell: Pid) -> Vec<Process> {
        let shell = shell.as_raw_nonzero().get();
        let image = image(shell);
        let is_stray = |process: &Process| match self.0.get(&process.identity()) {
            Some(Found::Fork) => self::image(process.pid) != image,
            Some(Found::Program) => false,
            None => process.parent == shell,
        };
        with_descendants(tree::descendants(shell), is_stray)
    }
}

/// Those of the processes that are the shell forked and nothing else yet, and the others.
pub(crate) fn copies_of(shell: Pid, processes: Vec<Process>) -> (Vec<Process>, Vec<Process>) {
    let image = image(shell.as_raw_nonzero().get());
    processes.into_iter().partition(|process| image.is_some() && self::image(process.pid) == image)
}

/// Those chosen and all below them. Parents come before children, so one pass finds every level.
pub(crate) fn with_descendants(all: Vec<Process>, chosen: impl Fn(&Process) -> bool) -> Vec<Process> {
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

/// A program's command line, which distinguishes a fork of the shell from what it becomes.
fn image(pid: i32) -> Option<Vec<u8>> {
    trl_sys::process::command_line(pid)
}

/// Kills them.
pub(crate) fn end(processes: &[Process]) {
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
