//! The journal of a host that is gone, read back from its files.
//!
//! Nothing in the files is trusted: a killed host leaves half a record, a full disk a
//! hole, a person an edited file. Whatever they hold, offsets stay within what is
//! there, and bytes that may not be the ones that were written are recorded as dropped.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use trl_protocol::exec::{ExecInfo, ExecState, FinishedFields, Outcome, Stream};
use trl_protocol::{ExecId, SessionId};

use crate::extent::{Extent, HEADER, MOST, Marks};
use crate::log::{Log, LogPosition};
use crate::record::{Began, End, Kind, Record, SpillStart, Start};
use crate::spill::Spill;
use crate::track::{Piece, Stored};
use crate::{Caps, ExecJournal, Journal, SPARE_BYTES};

/// A command of a session whose host is gone.
#[derive(Debug)]
pub struct KeptExec {
    pub journal: ExecJournal,
    pub start: Start,
    began: Option<Began>,
    end: Option<End>,
}

/// What the records of one command say, before the files are looked at.
#[derive(Debug, Default)]
struct RecordedExec {
    start: Option<Start>,
    began: Option<Began>,
    end: Option<End>,
    pieces: [Vec<Piece>; 2],
    spills: [Option<(SpillStart, u64)>; 2],
    totals: [u64; 2],
    /// Output came after the end.
    late: bool,
    segments: Vec<u64>,
}

/// The journal as it was left, and its commands by number. Only for reading.
pub fn read(dir: &Path) -> io::Result<(Journal, BTreeMap<u64, KeptExec>)> {
    let mut recorded: BTreeMap<u64, RecordedExec> = BTreeMap::new();
    let log = Log::reopen(dir, |record, place| recorded.entry(record.exec).or_default().take(record, place))?;
    let mut journal = Journal {
        dir: dir.to_owned(),
        log,
        caps: Caps::of(0),
        spare: SPARE_BYTES,
        durable: false,
        told: false,
    };
    let mut kept = BTreeMap::new();
    for (number, recorded) in recorded {
        for segment in &recorded.segments {
            journal.log.hold(*segment);
        }
        // Without its first record it is one that was being forgotten.
        kept.extend(recorded.into_exec(dir, number).map(|exec| (number, exec)));
    }
    Ok((journal, kept))
}

/// The same, to go on with.
pub fn resume(dir: &Path, caps: Caps) -> io::Result<(Journal, BTreeMap<u64, KeptExec>)> {
    let (mut journal, kept) = read(dir)?;
    journal.caps = caps;
    journal.log.go_on()?;
    Ok((journal, kept))
}

fn parse<T: DeserializeOwned>(record: &Record<'_>) -> Option<T> {
    serde_json::from_slice(record.payload).ok()
}

impl RecordedExec {
    fn take(&mut self, record: &Record<'_>, place: LogPosition) {
        let index = record.stream.map(Stream::index);
        match (record.kind, index) {
            (Some(Kind::Start), _) => self.start = parse(record),
            (Some(Kind::Began), _) => self.began = parse(record),
            (Some(Kind::End), _) => {
                self.end = parse(record);
                let outcome = self.end.as_ref().map(|end| &end.outcome);
                let totals = outcome.map_or([0, 0], |outcome| [outcome.stdout_bytes, outcome.stderr_bytes]);
                self.reaches(0, totals[0]);
                self.reaches(1, totals[1]);
            }
            (Some(Kind::Data), Some(index)) => self.piece(index, record, place),
            (Some(Kind::Spill), Some(index)) => {
                let sane = |start: &SpillStart| {
                    start.ring > 0
                        && start.ring.max(start.head).max(start.from) <= MOST
                        && [0, HEADER].contains(&start.header)
                };
                self.spills[index] = parse(record).filter(sane).map(|start| (start, record.offset));
                self.reaches(index, record.offset);
            }
            (Some(Kind::Mark), Some(index)) => {
                self.late |= self.end.is_some();
                self.reaches(index, record.offset);
            }
            (Some(Kind::Data | Kind::Spill | Kind::Mark), None) | (None, _) => {}
        }
        if self.segments.last() != Some(&place.segment) {
            self.segments.push(place.segment);
        }
    }

    fn reaches(&mut self, index: usize, total: u64) {
        self.totals[index] = self.totals[index].max(total.min(MOST));
    }

    /// Pieces follow each other; one that does not is none of ours.
    fn piece(&mut self, index: usize, record: &Record<'_>, place: LogPosition) {
        let end = self.pieces[index].last().map_or(0, |last| last.offset + last.len);
        let len = record.payload.len() as u64;
        if record.offset == end {
            self.pieces[index].push(Piece { offset: end, len, stored: Stored::Log(place) });
            self.reaches(index, end + len);
        }
    }

    fn into_exec(self, dir: &Path, number: u64) -> Option<KeptExec> {
        let RecordedExec { start, began, end, pieces, spills, totals, late, segments } = self;
        let mut journal = ExecJournal { number, segments, tracks: Default::default(), ended: true };
        let certain = end.is_some() && !late;
        for (stream, inline) in Stream::BOTH.into_iter().zip(pieces) {
            let track = &mut journal.tracks[stream.index()];
            track.head_end = inline.last().map_or(0, |last| last.offset + last.len);
            track.total = totals[stream.index()].max(track.head_end);
            track.tail_from = track.head_end;
            track.inline = inline;
            let follows = |start: &SpillStart| match start.header {
                0 => start.from == track.head_end,
                // What lies between was only in memory.
                _ => start.from >= track.head_end,
            };
            let Some((start, since)) = spills[stream.index()].filter(|(start, _)| follows(start)) else {
                track.tail_from = track.total;
                continue;
            };
            let path = dir.join(format!("{number}.{}", stream.name()));
            let spill = Spill::reopen(path, start).ok();
            let extent = spill.as_ref().and_then(|spill| match start.header {
                0 => {
                    let marks = Marks { from: start.from, since, total: track.total, certain };
                    Some(Extent::of_old_file(&marks, spill.caps(), spill.data_bytes()))
                }
                _ => spill.read_extent().filter(|extent| extent.head_end >= start.from),
            });
            match spill.zip(extent) {
                Some((spill, extent)) => track.adopt(spill, extent),
                None => track.tail_from = track.total,
            }
        }
        Some(KeptExec { journal, start: start?, began, end })
    }
}

impl KeptExec {
    /// How it ended; if its host did not live to see it, that is recorded.
    pub fn outcome(&self, working_dir: &str) -> Outcome {
        let [stdout_bytes, stderr_bytes] = Stream::BOTH.map(|stream| self.journal.total(stream));
        if let Some(end) = &self.end {
            return end.outcome.clone();
        }
        let note = match self.never_ran() {
            true => "the session was lost while this command waited for its turn: it did not run",
            false => "the session was lost while this command ran: its exit status is unknown",
        };
        Outcome {
            exit_code: None,
            signal: None,
            duration_ms: 1,
            duration_us: 1,
            timed_out: false,
            cancelled: self.never_ran(),
            stdout_bytes,
            stderr_bytes,
            working_dir: working_dir.to_owned(),
            limit: None,
            notes: vec![note.to_owned()],
            ..Outcome::default()
        }
    }

    fn never_ran(&self) -> bool {
        !self.has_run() && self.end.is_none()
    }

    /// Whether its turn came.
    pub fn has_run(&self) -> bool {
        !self.start.queued || self.began.is_some()
    }

    pub fn started_at(&self) -> Option<String> {
        match &self.began {
            Some(began) => Some(began.at.clone()),
            None => (!self.start.queued).then(|| self.start.created_at.clone()),
        }
    }

    pub fn finished_at(&self) -> Option<String> {
        self.end.as_ref().map(|end| end.at.clone())
    }

    /// As `exec.info` tells it.
    pub fn info(&self, session: SessionId, working_dir: &str) -> ExecInfo {
        let outcome = self.outcome(working_dir);
        let [stdout_dropped_bytes, stderr_dropped_bytes] = Stream::BOTH.map(|s| self.journal.dropped(s));
        ExecInfo {
            exec_id: ExecId { session, number: self.journal.number() },
            session_id: session,
            command: self.start.command.clone(),
            state: ExecState::Finished,
            background: self.start.background,
            tty: self.start.tty,
            pid: None,
            created_at: self.start.created_at.clone(),
            started_at: self.started_at(),
            finished_at: self.finished_at(),
            stdout_bytes: self.journal.total(Stream::Stdout),
            stderr_bytes: self.journal.total(Stream::Stderr),
            stdout_dropped_bytes,
            stderr_dropped_bytes,
            waiting_for_input: None,
            stdin_waiting_bytes: None,
            outcome: Some(FinishedFields::of(outcome, self.start.max_output)),
        }
    }
}
