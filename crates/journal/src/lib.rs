//! The truth about output: every byte that a command wrote, on disk, bounded.
//!
//! Small outputs live as frames in the session's append-only log; what grows
//! past `INLINE_BYTES` goes on in a spill file of its own with a fixed head
//! and a ring for the tail. Replies, streams, late attach and ranges all read from
//! here. What cannot be written (disk full) stays in memory as far as it is little; a
//! byte that cannot be kept is counted as dropped, never silently cut: `total` always
//! tells what the command wrote.
//!
//! The host writes it. When the host is gone, [`recover`] reads it back: for the daemon
//! that serves what is left, and for the host that goes on with a restarted session.

mod log;
mod moment;
mod record;
pub mod recover;
mod session_file;
mod spill;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trl_protocol::exec::Stream;

use log::{Log, LogPosition};
use record::{Kind, SpillStart};
use spill::Spill;

pub use moment::Moment;
pub use record::{Began, End, Start};
pub use recover::KeptExec;
pub use session_file::{SessionFile, Since, forget_session};

/// Bytes of a stream, and number of frames, that stay in the session's log.
const INLINE_BYTES: u64 = 64 * 1024;
const INLINE_FRAMES: usize = 256;

/// Most that is kept in memory instead, of all commands together.
const SPARE_BYTES: usize = 4 * 1024 * 1024;

/// Kept bytes of one stream beyond the inline part.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    pub head: u64,
    pub ring: u64,
}

impl Caps {
    /// A quarter of the cap keeps the head, the rest the tail.
    pub fn of(journal_bytes: u64) -> Caps {
        let rest = journal_bytes.max(4 * INLINE_BYTES) - INLINE_BYTES;
        Caps { head: rest / 4, ring: rest - rest / 4 }
    }
}

#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    log: Log,
    caps: Caps,
    /// Bytes that may still be kept in memory while the disk takes none.
    spare: usize,
    /// The ends of commands are to survive a power cut.
    durable: bool,
    /// Something was told since the last sync; output alone is nothing that anyone relies on yet.
    told: bool,
}

/// The journal's knowledge of one command.
#[derive(Debug)]
pub struct ExecJournal {
    number: u64,
    tracks: [Track; 2],
    segments: Vec<u64>,
    /// What still comes is from processes that the command left behind.
    ended: bool,
}

#[derive(Debug, Default)]
struct Track {
    total: u64,
    inline: Vec<Piece>,
    spill: Option<Spill>,
    /// End of the contiguous kept bytes from offset 0.
    head_end: u64,
    /// First kept offset after the head; everything between is dropped.
    tail_from: u64,
}

#[derive(Debug)]
struct Piece {
    offset: u64,
    len: u64,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    Log(LogPosition),
    /// The disk was full when it came: results stay right for a while.
    Memory(Box<[u8]>),
}

impl Journal {
    pub fn open(dir: &Path, caps: Caps) -> io::Result<Journal> {
        trl_sys::private::create_dir(dir)?;
        Ok(Journal {
            dir: dir.to_owned(),
            log: Log::open(dir)?,
            caps,
            spare: SPARE_BYTES,
            durable: false,
            told: false,
        })
    }

    /// From here on [`Journal::sync`] makes what was told survive a power cut.
    pub fn survive_power_cuts(&mut self) {
        self.durable = true;
    }

    /// Brings everything that was told since the last time to the disk, in one go for all commands. To be
    /// called before an end is told to anyone.
    pub fn sync(&mut self) {
        if self.durable && std::mem::take(&mut self.told) {
            self.log.sync();
        }
    }

    pub fn begin(&mut self, number: u64, start: &Start) -> ExecJournal {
        let mut exec = ExecJournal { number, tracks: Default::default(), segments: Vec::new(), ended: false };
        self.tell(&mut exec, Kind::Start, start);
        exec
    }

    /// To be told before the first thing happens, of a command that had to wait.
    pub fn began(&mut self, exec: &mut ExecJournal, began: &Began) {
        self.tell(exec, Kind::Began, began);
    }

    pub fn end(&mut self, exec: &mut ExecJournal, end: &End) {
        if self.durable {
            // First the bytes, then that they are all.
            exec.tracks.iter().filter_map(|track| track.spill.as_ref()).for_each(Spill::sync);
        }
        self.tell(exec, Kind::End, end);
        exec.ended = true;
    }

    fn tell(&mut self, exec: &mut ExecJournal, kind: Kind, what: &impl Serialize) {
        let body = serde_json::to_vec(what).unwrap_or_default();
        self.told = true;
        if let Ok(place) = self.log.append(kind, exec.number, None, 0, &body) {
            self.hold(exec, place.segment);
        }
    }

    pub fn append(&mut self, exec: &mut ExecJournal, stream: Stream, bytes: &[u8]) {
        let mut rest = bytes;
        let track = &exec.tracks[stream.index()];
        if track.spill.is_none() && track.inline.len() < INLINE_FRAMES && track.head_end == track.total {
            let room = INLINE_BYTES.saturating_sub(track.total) as usize;
            let (inline, over) = rest.split_at(rest.len().min(room));
            if !inline.is_empty() {
                self.append_inline(exec, stream, inline);
            }
            rest = over;
        }
        if !rest.is_empty() {
            self.append_spill(exec, stream, rest);
        }
    }

    fn append_inline(&mut self, exec: &mut ExecJournal, stream: Stream, bytes: &[u8]) {
        let offset = exec.tracks[stream.index()].total;
        let written = self.log.append(Kind::Data, exec.number, Some(stream), offset, bytes);
        let track = &mut exec.tracks[stream.index()];
        let len = bytes.len() as u64;
        track.total += len;
        match written {
            Ok(place) => {
                track.inline.push(Piece { offset, len, kept: Kept::Log(place) });
                track.head_end = track.total;
                self.hold(exec, place.segment);
            }
            Err(_) if bytes.len() <= self.spare => {
                self.spare -= bytes.len();
                track.inline.push(Piece { offset, len, kept: Kept::Memory(bytes.into()) });
                track.head_end = track.total;
            }
            Err(_) => track.tail_from = track.total,
        }
    }

    fn append_spill(&mut self, exec: &mut ExecJournal, stream: Stream, bytes: &[u8]) {
        let number = exec.number;
        let track = &mut exec.tracks[stream.index()];
        if track.spill.is_none() {
            let path = self.dir.join(format!("{number}.{}", stream.name()));
            track.spill = Spill::create(path, track.head_end, self.caps).ok();
            if track.spill.is_some() {
                let Caps { head, ring } = self.caps;
                let start = SpillStart { from: track.head_end, head, ring };
                let body = serde_json::to_vec(&start).unwrap_or_default();
                let total = track.total;
                self.mark(exec, Kind::Spill, stream, total, &body);
            }
        }
        let track = &mut exec.tracks[stream.index()];
        let (before, total) = (track.total, track.total + bytes.len() as u64);
        let every = track.spill.as_ref().map_or(u64::MAX, Spill::mark_every);
        if exec.ended {
            // Whoever reads this back must know that the count at the end is not the last word.
            self.mark(exec, Kind::Mark, stream, before, b"");
        }
        exec.tracks[stream.index()].spill_over(bytes);
        if exec.ended || before / every != total / every {
            self.mark(exec, Kind::Mark, stream, total, b"");
        }
    }

    fn mark(&mut self, exec: &mut ExecJournal, kind: Kind, stream: Stream, total: u64, body: &[u8]) {
        if let Ok(place) = self.log.append(kind, exec.number, Some(stream), total, body) {
            self.hold(exec, place.segment);
        }
    }

    /// The kept bytes at `offset` or after it, at most `out.len()`: where they
    /// begin and how many were read. Nothing left: `(total, 0)`.
    pub fn read(&self, exec: &ExecJournal, stream: Stream, offset: u64, out: &mut [u8]) -> (u64, usize) {
        let track = &exec.tracks[stream.index()];
        let mut offset = offset.min(track.total);
        if offset >= track.head_end && offset < track.tail_start() {
            offset = track.tail_start();
        }
        let mut filled = 0;
        while filled < out.len() {
            let at = offset + filled as u64;
            if at >= track.total || (at >= track.head_end && at < track.tail_start()) {
                break;
            }
            match self.read_piece(track, at, &mut out[filled..]) {
                0 => break,
                read => filled += read,
            }
        }
        (offset, filled)
    }

    fn read_piece(&self, track: &Track, at: u64, out: &mut [u8]) -> usize {
        let inline = track.inline.partition_point(|piece| piece.offset + piece.len <= at);
        if let Some(piece) = track.inline.get(inline).filter(|piece| piece.offset <= at) {
            let skip = at - piece.offset;
            let want = out.len().min((piece.len - skip) as usize);
            return match &piece.kept {
                Kept::Log(place) => self.log.read(*place, skip, &mut out[..want]),
                Kept::Memory(bytes) => {
                    out[..want].copy_from_slice(&bytes[skip as usize..][..want]);
                    want
                }
            };
        }
        track.spill.as_ref().map_or(0, |spill| spill.read(at, track.head_end, track.total, out))
    }

    /// Forgets a command and frees its disk space.
    pub fn discard(&mut self, exec: ExecJournal) {
        for segment in &exec.segments {
            self.log.release(*segment);
        }
        for track in exec.tracks {
            for piece in track.inline {
                if let Kept::Memory(bytes) = piece.kept {
                    self.spare += bytes.len();
                }
            }
            if let Some(spill) = track.spill {
                spill.remove();
            }
        }
    }

    fn hold(&mut self, exec: &mut ExecJournal, segment: u64) {
        if exec.segments.last() != Some(&segment) {
            exec.segments.push(segment);
            self.log.hold(segment);
        }
    }
}

impl Track {
    fn spill_over(&mut self, bytes: &[u8]) {
        let offset = self.total;
        self.total += bytes.len() as u64;
        let Some(spill) = &mut self.spill else {
            self.tail_from = self.total;
            return;
        };
        let into_head = if self.head_end == offset {
            spill.head_room(offset).min(bytes.len() as u64) as usize
        } else {
            0
        };
        let (head, ring) = bytes.split_at(into_head);
        if !head.is_empty() {
            if spill.write_head(offset, head).is_ok() {
                self.head_end += head.len() as u64;
            } else {
                self.tail_from = self.total;
                return;
            }
        }
        if !ring.is_empty() && spill.write_ring(offset + into_head as u64, ring).is_err() {
            self.tail_from = self.total;
        }
        self.tail_from = self.tail_from.max(self.head_end);
    }

    fn tail_start(&self) -> u64 {
        let ring = self.spill.as_ref().map_or(0, |spill| self.total.saturating_sub(spill.caps().ring));
        self.tail_from.max(ring).max(self.head_end).min(self.total)
    }
}

impl ExecJournal {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn total(&self, stream: Stream) -> u64 {
        self.tracks[stream.index()].total
    }

    /// Bytes that are no longer kept.
    pub fn dropped(&self, stream: Stream) -> u64 {
        let track = &self.tracks[stream.index()];
        track.tail_start() - track.head_end.min(track.tail_start())
    }

    /// Bytes that may still be written before one that was not read at `from` is overwritten.
    pub fn room_before_overwriting(&self, stream: Stream, from: u64, caps: Caps) -> u64 {
        let track = &self.tracks[stream.index()];
        let limit = from.max(track.head_end.min(from)).saturating_add(caps.ring);
        limit.saturating_sub(track.total)
    }

    /// Disk that this command's output uses.
    pub fn disk_bytes(&self) -> u64 {
        self.tracks.iter().map(|t| t.head_end + (t.total - t.tail_start())).sum()
    }
}

#[cfg(test)]
mod tests;
