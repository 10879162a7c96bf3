//! How far a copy is, for somebody who watches.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crate::{human, output};

const EVERY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
    begun: Instant,
    last: Instant,
    files: u64,
    bytes: u64,
    has_line: bool,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let now = Instant::now();
        let shown = std::io::stderr().is_terminal();
        Progress { shown, begun: now, last: now, files: 0, bytes: 0, has_line: false }
    }

    /// A file is being copied: so much of it is there.
    pub(super) fn at(&mut self, name: &str, moved: u64, done: u64, total: u64) {
        self.bytes += moved;
        if !self.shown || self.last.elapsed() < EVERY {
            return;
        }
        self.last = Instant::now();
        self.has_line = true;
        let rate = (self.bytes as f64 / self.begun.elapsed().as_secs_f64().max(0.001)) as u64;
        let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
        let line =
            format!("{name}  {} of {}  {}/s", human::bytes(done), human::bytes(total), human::bytes(rate));
        output::status_line(&line);
    }

    pub(super) fn file_done(&mut self) {
        self.files += 1;
    }

    /// Files and bytes that were copied.
    pub(super) fn done(&self) -> (u64, u64) {
        if self.has_line {
            output::status_line("");
        }
        (self.files, self.bytes)
    }
}
