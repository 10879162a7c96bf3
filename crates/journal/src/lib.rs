//! The truth about output: every byte that a command wrote, on disk, bounded.
//!
//! Small outputs live as frames in the session's append-only log; what grows
//! past `INLINE_BYTES` goes on in a spill file of its own with a fixed head
//! and a ring for the tail. Replies, streams, late attach and ranges all read from
//! here. What cannot be written (disk full) stays in memory as far as it is little; a
//! byte that cannot be kept is counted as dropped, never silently cut: `total` always
//! tells what the command wrote. A part of the tail that cannot be written takes
//! the tail before it along: what is kept is one head and one tail.
//!
//! The host writes it. When the host is gone, [`recover`] reads it back: for the daemon
//! that serves what is left, and for the host that goes on with a restarted session.

mod extent;
mod log;
mod moment;
mod record;
pub mod recover;
mod session_file;
mod spill;
mod track;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use trl_protocol::exec::Stream;

use log::Log;
use record::Kind;
use spill::Spill;
use track::{Stored, Track};

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
        // First the bytes, then that they are all.
        exec.tracks.iter_mut().for_each(Track::seal);
        if self.durable {
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
        let track = &exec.tracks[stream.index()];
        let stored = match self.log.append(Kind::Data, exec.number, Some(stream), track.total, bytes) {
            Ok(place) => {
                self.hold(exec, place.segment);
                Some(Stored::Log(place))
            }
            Err(_) if bytes.len() <= self.spare => {
                self.spare -= bytes.len();
                Some(Stored::Memory(bytes.into()))
            }
            Err(_) => None,
        };
        exec.tracks[stream.index()].add_inline(bytes.len() as u64, stored);
    }

    fn append_spill(&mut self, exec: &mut ExecJournal, stream: Stream, bytes: &[u8]) {
        if exec.tracks[stream.index()].spill.is_none() {
            self.open_spill(exec, stream);
        }
        let track = &mut exec.tracks[stream.index()];
        track.spill_over(bytes);
        if exec.ended {
            // It is from a process that was left behind; nobody tells when it is the last.
            track.seal();
        }
    }

    /// Without room for the file and its record, the next output tries again.
    fn open_spill(&mut self, exec: &mut ExecJournal, stream: Stream) {
        let track = &exec.tracks[stream.index()];
        let path = self.dir.join(format!("{}.{}", exec.number, stream.name()));
        let Ok(spill) = Spill::create(path, self.caps, track.extent(track.total)) else { return };
        let body = serde_json::to_vec(&spill.start()).unwrap_or_default();
        match self.log.append(Kind::Spill, exec.number, Some(stream), track.total, &body) {
            Ok(place) => {
                self.log.expect_new_file();
                self.hold(exec, place.segment);
                exec.tracks[stream.index()].begin_spill(spill);
            }
            Err(_) => spill.remove(),
        }
    }

    /// The kept bytes at `offset` or after it, at most `out.len()`: where they
    /// begin and how many were read. Nothing left, or nothing that can be read: `(total, 0)`.
    pub fn read(&self, exec: &ExecJournal, stream: Stream, offset: u64, out: &mut [u8]) -> (u64, usize) {
        let track = &exec.tracks[stream.index()];
        let offset = offset.min(track.total);
        let tail = track.tail_start();
        let start = if offset < track.head_end { offset } else { offset.max(tail) };
        let filled = self.fill(track, start, out);
        if filled > 0 || out.is_empty() {
            return (start, filled);
        }
        let behind = start.max(tail);
        match self.fill(track, behind, out) {
            0 => (track.total, 0),
            filled => (behind, filled),
        }
    }

    /// Bytes from `start` on, up to a gap or to something that cannot be read.
    fn fill(&self, track: &Track, start: u64, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len() {
            let at = start + filled as u64;
            if at >= track.total || (at >= track.head_end && at < track.tail_start()) {
                break;
            }
            match self.read_piece(track, at, &mut out[filled..]) {
                0 => break,
                read => filled += read,
            }
        }
        filled
    }

    fn read_piece(&self, track: &Track, at: u64, out: &mut [u8]) -> usize {
        let inline = track.inline.partition_point(|piece| piece.offset + piece.len <= at);
        if let Some(piece) = track.inline.get(inline).filter(|piece| piece.offset <= at) {
            let skip = at - piece.offset;
            let want = out.len().min((piece.len - skip) as usize);
            return match &piece.stored {
                Stored::Log(place) => self.log.read(*place, skip, &mut out[..want]),
                Stored::Memory(bytes) => {
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
                if let Stored::Memory(bytes) = piece.stored {
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
        from.max(track.head_end).saturating_add(caps.ring).saturating_sub(track.total)
    }

    /// Disk that this command's output uses.
    pub fn disk_bytes(&self) -> u64 {
        self.tracks.iter().map(|t| t.head_end + (t.total - t.tail_start())).sum()
    }
}

#[cfg(test)]
mod tests;
