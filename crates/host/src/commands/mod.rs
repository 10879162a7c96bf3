//! The command table: every command that is known, in which order commands run, and what is kept
//! of their output.
//!
//! It alone gives out numbers, changes the queue and writes the journal. What it keeps true: a
//! number is used once; what is queued is in the table and has not run; what may still produce
//! output is active; a command that leaves the table takes its journal with it.

mod exec;
mod output;
mod retention;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use trl_confine::linux::cgroups::Hits;
use trl_journal::{Began, Caps, End, ExecJournal, Journal, Start};
use trl_protocol::exec::{Outcome, Stream};
use trl_protocol::wire::RunSpec;

pub(crate) use exec::{
    Background, Exec, Input, LastProgram, Phase, Requester, Running, StopTargets, durations,
};
pub(crate) use output::{Output, PIPE_BYTES};

/// What a command can tell at its end.
const MAX_NOTES: usize = 16;

#[derive(Debug)]
pub(crate) struct Commands {
    /// Boxed: the map moves its entries whenever one comes or goes.
    execs: BTreeMap<u64, Box<Exec>>,
    /// Commands that something may still come from; the others are only kept.
    active: BTreeSet<u64>,
    queue: VecDeque<u64>,
    /// Background commands that wait until the shell has told its state.
    awaiting_state: Vec<(Requester, RunSpec)>,
    next_number: u64,
    /// How many were started, in the shell or in the background.
    started: u64,
    /// Bytes of all commands, by stream.
    printed: [u64; 2],
    /// Disk that the output of all commands in the table uses.
    kept_bytes: u64,
    journal: Journal,
    caps: Caps,
}

impl Commands {
    /// A table with the commands that an earlier host of the session left.
    pub(crate) fn new(
        journal: Journal,
        caps: Caps,
        execs: BTreeMap<u64, Box<Exec>>,
        next_number: u64,
        started: u64,
    ) -> Commands {
        Commands {
            kept_bytes: execs.values().map(|exec| exec.journal.disk_bytes()).sum(),
            execs,
            active: BTreeSet::new(),
            queue: VecDeque::new(),
            awaiting_state: Vec::new(),
            next_number,
            started,
            printed: [0; 2],
            journal,
            caps,
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Exec> {
        self.execs.get(&number).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Exec> {
        self.execs.get_mut(&number).map(Box::as_mut)
    }

    /// All that are known, oldest first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Exec> {
        self.execs.values().map(Box::as_ref)
    }

    /// Those that something may still come from.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Exec> {
        self.active.iter().filter_map(|number| self.execs.get(number).map(Box::as_ref))
    }

    pub(crate) fn active_numbers(&self) -> Vec<u64> {
        self.active.iter().copied().collect()
    }

    /// Whether a command waits or runs.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.active().any(|exec| exec.outcome().is_none())
    }

    /// Something that the commands that run now are to tell at their end, once.
    pub(crate) fn note(&mut self, text: &str) {
        for number in &self.active {
            if let Some(exec) = self.execs.get_mut(number)
                && exec.running().is_some()
                && exec.notes.len() < MAX_NOTES
                && !exec.notes.iter().any(|note| note == text)
            {
                exec.notes.push(text.to_owned());
            }
        }
    }

    /// The number that the next command will get.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Whether a command with this number was there once.
    pub(crate) fn was_known(&self, number: u64) -> bool {
        (1..self.next_number).contains(&number)
    }

    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    pub(crate) fn printed(&self) -> [u64; 2] {
        self.printed
    }

    pub(crate) fn caps(&self) -> Caps {
        self.caps
    }

    /// Takes a new command in. `make` builds it around its number and journal.
    pub(crate) fn add(
        &mut self,
        start: &Start,
        make: impl FnOnce(u64, ExecJournal) -> std::io::Result<Exec>,
    ) -> std::io::Result<u64> {
        let number = self.next_number;
        self.next_number += 1;
        let exec = make(number, self.journal.begin(number, start))?;
        self.execs.insert(number, Box::new(exec));
        self.active.insert(number);
        Ok(number)
    }

    /// Forgets a command that never ran.
    pub(crate) fn discard(&mut self, number: u64) -> Option<Discarded> {
        self.queue.retain(|queued| *queued != number);
        self.active.remove(&number);
        self.remove(number)
    }

    // The queue.

    pub(crate) fn enqueue(&mut self, number: u64) {
        self.queue.push_back(number);
    }

    /// A command that could not run is the next one again.
    pub(crate) fn requeue(&mut self, number: u64, until: Instant) {
        if let Some(exec) = self.execs.get_mut(&number) {
            exec.retried = true;
            exec.phase = Phase::Queued { until };
            self.queue.push_front(number);
            self.started = self.started.saturating_sub(1);
        }
    }

    pub(crate) fn dequeue(&mut self, number: u64) {
        self.queue.retain(|queued| *queued != number);
    }

    pub(crate) fn front(&self) -> Option<u64> {
        self.queue.front().copied()
    }

    pub(crate) fn is_queued(&self, number: u64) -> bool {
        self.queue.contains(&number)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn queue(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().copied()
    }

    pub(crate) fn take_queue(&mut self) -> VecDeque<u64> {
        std::mem::take(&mut self.queue)
    }

    pub(crate) fn await_state(&mut self, requester: Requester, run: RunSpec) {
        self.awaiting_state.push((requester, run));
    }

    pub(crate) fn take_awaiting_state(&mut self) -> Vec<(Requester, RunSpec)> {
        std::mem::take(&mut self.awaiting_state)
    }

    // From start to end.

    /// The command runs from now on.
    pub(crate) fn mark_running(
        &mut self,
        number: u64,
        background: Option<Background>,
        hits: Hits,
        now: Instant,
        at: &str,
    ) {
        let Some(exec) = self.execs.get_mut(&number) else { return };
        exec.phase = Phase::Running(Running { since: now, hits, named: None, targets: None, background });
        exec.started_at = Some(at.to_owned());
        exec.mark_activity();
        self.started += 1;
    }

    /// Its turn has come; the journal tells it apart from its arrival.
    pub(crate) fn mark_begun(&mut self, number: u64, at: String) {
        if let Some(exec) = self.execs.get_mut(&number) {
            self.journal.began(&mut exec.journal, &Began { at });
        }
    }

    pub(crate) fn mark_finished(&mut self, number: u64, outcome: Outcome, now: Instant, at: &str) {
        let Some(exec) = self.execs.get_mut(&number) else { return };
        exec.finished_at = Some(at.to_owned());
        let end = End { outcome, at: at.to_owned() };
        self.journal.end(&mut exec.journal, &end);
        exec.phase = Phase::Finished { outcome: end.outcome, at: now };
    }

    /// Whoever waits for the result of any command, which nobody will wait for any more.
    pub(crate) fn take_requesters(&mut self) -> Vec<Requester> {
        self.execs.values_mut().filter_map(|exec| exec.requester.take()).collect()
    }

    /// Nobody waits on these requests any more.
    pub(crate) fn forget_requesters(&mut self, is_gone: impl Fn(Requester) -> bool) {
        for exec in self.execs.values_mut() {
            exec.requester.take_if(|requester| is_gone(*requester));
        }
    }

    /// Brings what the journal was told to the disk, if the session is durable.
    pub(crate) fn sync(&mut self) {
        self.journal.sync();
    }

    // Output.

    /// Keeps what a command wrote. Gives the offset of its first byte.
    pub(crate) fn append(&mut self, number: u64, stream: Stream, bytes: &[u8]) -> Option<u64> {
        self.printed[stream.index()] += bytes.len() as u64;
        let exec = self.execs.get_mut(&number)?;
        let (offset, before) = (exec.journal.total(stream), exec.journal.disk_bytes());
        self.journal.append(&mut exec.journal, stream, bytes);
        self.kept_bytes = self.kept_bytes - before + exec.journal.disk_bytes();
        Some(offset)
    }

    /// Reads what is kept of a command's output from `offset` on: where it begins, and how much it is.
    pub(crate) fn read(&self, exec: &Exec, stream: Stream, offset: u64, out: &mut [u8]) -> (u64, usize) {
        self.journal.read(&exec.journal, stream, offset, out)
    }

    /// The last bytes of a command's output.
    pub(crate) fn tail(&self, exec: &Exec, stream: Stream, out: &mut [u8]) -> usize {
        let from = exec.journal.total(stream).saturating_sub(out.len() as u64);
        self.journal.read(&exec.journal, stream, from, out).1
    }
}

/// What is left of a command that never ran.
#[derive(Debug)]
pub(crate) struct Discarded {
    pub(crate) requester: Option<Requester>,
}
