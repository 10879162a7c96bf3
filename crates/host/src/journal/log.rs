//! The session's append-only log: framed records in segments.
//!
//! A record is `tj`, kind, stream, command number, offset, length, payload. A
//! segment goes when the last command that has a record in it is forgotten.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use trl_protocol::exec::Stream;

pub(super) const HEADER: usize = 24;
const MAGIC: [u8; 2] = *b"tj";
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Start = 1,
    Data = 2,
    Spill = 3,
    End = 4,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) segment: u64,
    position: u64,
}

#[derive(Debug)]
pub(super) struct Log {
    dir: PathBuf,
    segments: BTreeMap<u64, Segment>,
    current: u64,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Segment {
    file: File,
    len: u64,
    holders: usize,
}

impl Log {
    pub(super) fn open(dir: &Path) -> io::Result<Log> {
        let mut log = Log { dir: dir.to_owned(), segments: BTreeMap::new(), current: 0, scratch: Vec::new() };
        log.next_segment()?;
        Ok(log)
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("journal-{segment}.log"))
    }

    fn next_segment(&mut self) -> io::Result<()> {
        let next = self.current + 1;
        // The directory may have been removed by someone's clean-up.
        std::fs::create_dir_all(&self.dir)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(self.path(next))?;
        self.segments.insert(next, Segment { file, len: 0, holders: 0 });
        let previous = std::mem::replace(&mut self.current, next);
        self.drop_if_unheld(previous);
        Ok(())
    }

    pub(super) fn append(
        &mut self,
        kind: Kind,
        exec: u64,
        stream: Option<Stream>,
        offset: u64,
        payload: &[u8],
    ) -> io::Result<Place> {
        if self.segments.get(&self.current).is_none_or(|segment| segment.len > SEGMENT_BYTES) {
            self.next_segment()?;
        }
        let mut record = std::mem::take(&mut self.scratch);
        record.clear();
        record.extend_from_slice(&MAGIC);
        record.push(kind as u8);
        record.push(stream.map_or(0, |stream| stream.index() as u8 + 1));
        record.extend_from_slice(&exec.to_le_bytes());
        record.extend_from_slice(&offset.to_le_bytes());
        record.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        record.extend_from_slice(payload);
        let written = self.write(&record);
        if record.capacity() <= 256 * 1024 {
            self.scratch = record;
        }
        written
    }

    fn write(&mut self, record: &[u8]) -> io::Result<Place> {
        let current = self.current;
        let segment = self.segments.get_mut(&current).ok_or(io::ErrorKind::NotFound)?;
        segment.file.write_all_at(record, segment.len)?;
        let place = Place { segment: current, position: segment.len + HEADER as u64 };
        segment.len += record.len() as u64;
        Ok(place)
    }

    pub(super) fn read(&self, place: Place, skip: u64, out: &mut [u8]) -> usize {
        let Some(segment) = self.segments.get(&place.segment) else { return 0 };
        match segment.file.read_exact_at(out, place.position + skip) {
            Ok(()) => out.len(),
            Err(_) => 0,
        }
    }

    pub(super) fn hold(&mut self, segment: u64) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.holders += 1;
        }
    }

    pub(super) fn release(&mut self, segment: u64) {
        if let Some(held) = self.segments.get_mut(&segment) {
            held.holders = held.holders.saturating_sub(1);
        }
        self.drop_if_unheld(segment);
    }

    fn drop_if_unheld(&mut self, segment: u64) {
        let unheld = self.segments.get(&segment).is_some_and(|s| s.holders == 0);
        if unheld && segment != self.current {
            self.segments.remove(&segment);
            // Already gone is as good as removed.
            std::fs::remove_file(self.path(segment)).ok();
        }
    }
}
