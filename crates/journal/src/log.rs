//! The session's append-only log: records in segments.
//!
//! A segment goes when the last command that has a record in it is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use trl_protocol::exec::Stream;

use crate::record::{HEADER, Kind, Record};

const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
/// A segment is closed after the record that passes [`SEGMENT_BYTES`]; none is much longer.
const LONGEST_SEGMENT: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPosition {
    pub(crate) segment: u64,
    position: u64,
}

#[derive(Debug)]
pub(crate) struct Log {
    dir: PathBuf,
    segments: BTreeMap<u64, Segment>,
    current: u64,
    scratch: Vec<u8>,
    /// Segments that have records which may not be on the disk yet.
    unsynced: BTreeSet<u64>,
    /// Files were made since the directory was synced.
    new_files: bool,
}

#[derive(Debug)]
struct Segment {
    file: File,
    len: u64,
    holders: usize,
}

impl Log {
    pub(crate) fn open(dir: &Path) -> io::Result<Log> {
        let mut log = Log::without_segments(dir);
        log.next_segment()?;
        Ok(log)
    }

    fn without_segments(dir: &Path) -> Log {
        Log {
            dir: dir.to_owned(),
            segments: BTreeMap::new(),
            current: 0,
            scratch: Vec::new(),
            unsynced: BTreeSet::new(),
            new_files: false,
        }
    }

    /// The segments that an earlier process left, each record told to `tell` in the order it was
    /// written. What cannot be read is passed over. Nothing is changed on disk.
    pub(crate) fn reopen(dir: &Path, mut tell: impl FnMut(&Record<'_>, LogPosition)) -> io::Result<Log> {
        let mut log = Log::without_segments(dir);
        for number in segments_in(dir)? {
            let Ok(file) = File::open(log.path(number)) else { continue };
            let len = file.metadata()?.len().min(LONGEST_SEGMENT);
            let mut bytes = vec![0; len as usize];
            if file.read_exact_at(&mut bytes, 0).is_err() {
                continue;
            }
            let mut at = 0;
            while let Some((record, length)) = Record::read(&bytes[at..]) {
                tell(&record, LogPosition { segment: number, position: (at + HEADER) as u64 });
                at += length;
            }
            log.segments.insert(number, Segment { file, len: at as u64, holders: 0 });
            log.current = log.current.max(number);
        }
        Ok(log)
    }

    /// Goes on in a segment of its own, and drops those that nobody needs.
    pub(crate) fn go_on(&mut self) -> io::Result<()> {
        self.next_segment()?;
        for segment in self.segments.keys().copied().collect::<Vec<_>>() {
            self.drop_if_unheld(segment);
        }
        Ok(())
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("journal-{segment}.log"))
    }

    fn next_segment(&mut self) -> io::Result<()> {
        let next = self.current + 1;
        // The directory may have been removed by someone's clean-up.
        trl_sys::private::create_dir(&self.dir)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(self.path(next))?;
        self.segments.insert(next, Segment { file, len: 0, holders: 0 });
        self.new_files = true;
        let previous = std::mem::replace(&mut self.current, next);
        self.drop_if_unheld(previous);
        Ok(())
    }

    pub(crate) fn append(
        &mut self,
        kind: Kind,
        exec: u64,
        stream: Option<Stream>,
        offset: u64,
        payload: &[u8],
    ) -> io::Result<LogPosition> {
        if self.segments.get(&self.current).is_none_or(|segment| segment.len > SEGMENT_BYTES) {
            self.next_segment()?;
        }
        let mut record = std::mem::take(&mut self.scratch);
        record.clear();
        Record::put(&mut record, kind, exec, stream, offset, payload);
        let written = self.write(&record);
        if record.capacity() <= 256 * 1024 {
            self.scratch = record;
        }
        written
    }

    fn write(&mut self, record: &[u8]) -> io::Result<LogPosition> {
        let current = self.current;
        let segment = self.segments.get_mut(&current).ok_or(io::ErrorKind::NotFound)?;
        if let Err(error) = segment.file.write_all_at(record, segment.len) {
            // Half a record would hide the next one from a reader.
            segment.file.set_len(segment.len).ok();
            return Err(error);
        }
        let place = LogPosition { segment: current, position: segment.len + HEADER as u64 };
        segment.len += record.len() as u64;
        self.unsynced.insert(current);
        Ok(place)
    }

    /// Brings all records to the disk; a disk that refuses is no worse than one without this.
    pub(crate) fn sync(&mut self) {
        for segment in std::mem::take(&mut self.unsynced) {
            if let Some(segment) = self.segments.get(&segment) {
                segment.file.sync_data().ok();
            }
        }
        if std::mem::take(&mut self.new_files) {
            sync_dir(&self.dir);
        }
    }

    /// Another file was made in the directory.
    pub(crate) fn expect_new_file(&mut self) {
        self.new_files = true;
    }

    #[cfg(test)]
    pub(crate) fn has_new_files(&self) -> bool {
        self.new_files
    }

    #[cfg(test)]
    pub(crate) fn is_synced(&self) -> bool {
        self.unsynced.is_empty() && !self.new_files
    }

    pub(crate) fn read(&self, place: LogPosition, skip: u64, out: &mut [u8]) -> usize {
        let Some(segment) = self.segments.get(&place.segment) else { return 0 };
        match segment.file.read_exact_at(out, place.position + skip) {
            Ok(()) => out.len(),
            Err(_) => 0,
        }
    }

    pub(crate) fn hold(&mut self, segment: u64) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.holders += 1;
        }
    }

    pub(crate) fn release(&mut self, segment: u64) {
        if let Some(held) = self.segments.get_mut(&segment) {
            held.holders = held.holders.saturating_sub(1);
        }
        self.drop_if_unheld(segment);
    }

    fn drop_if_unheld(&mut self, segment: u64) {
        let unheld = self.segments.get(&segment).is_some_and(|s| s.holders == 0);
        if unheld && segment != self.current {
            self.segments.remove(&segment);
            self.unsynced.remove(&segment);
            // Already gone is as good as removed.
            std::fs::remove_file(self.path(segment)).ok();
        }
    }
}

/// Names of files are on the disk when their directory is.
pub(crate) fn sync_dir(dir: &Path) {
    if let Ok(dir) = File::open(dir) {
        dir.sync_all().ok();
    }
}

fn segments_in(dir: &Path) -> io::Result<Vec<u64>> {
    let number = |entry: io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_prefix("journal-")?.strip_suffix(".log")?.parse().ok()
    };
    let mut numbers: Vec<u64> = std::fs::read_dir(dir)?.filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::full_disk::{limit_files, run_in_own_process};

    /// A write ends in the middle, as on a full disk.
    #[test]
    fn half_a_record_is_taken_back() {
        if !run_in_own_process("log::tests::half_a_record_is_taken_back") {
            return;
        }
        limit_files(Some(4096));
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path()).unwrap();
        let append =
            |log: &mut Log, count| log.append(Kind::Data, 1, Some(Stream::Stdout), 0, &vec![b'x'; count]);
        append(&mut log, 100).unwrap();
        let whole = std::fs::metadata(log.path(1)).unwrap().len();
        append(&mut log, 8000).unwrap_err();
        assert_eq!(std::fs::metadata(log.path(1)).unwrap().len(), whole);
        append(&mut log, 50).unwrap();
    }
}
