//! A file for one stream of a talkative command: what it holds, a head that stays, and a ring
//! that always holds the newest bytes. Sparse, so it costs what was written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::Caps;
use crate::extent::{self, ENCODED, Extent, HEADER};
use crate::record::SpillStart;

#[derive(Debug)]
pub(crate) struct Spill {
    file: File,
    path: PathBuf,
    start: SpillStart,
}

impl Spill {
    /// `extent`: what is kept of the stream before the file.
    pub(crate) fn create(path: PathBuf, caps: Caps, extent: Extent) -> io::Result<Spill> {
        if let Some(dir) = path.parent() {
            trl_sys::private::create_dir(dir)?;
        }
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&path)?;
        let Caps { head, ring } = caps;
        let spill =
            Spill { file, path, start: SpillStart { from: extent.head_end, head, ring, header: HEADER } };
        match spill.write_extent(extent) {
            Ok(()) => Ok(spill),
            Err(error) => {
                spill.remove();
                Err(error)
            }
        }
    }

    /// One that an earlier process left.
    pub(crate) fn reopen(path: PathBuf, start: SpillStart) -> io::Result<Spill> {
        let file = OpenOptions::new().read(true).open(&path)?;
        Ok(Spill { file, path, start })
    }

    /// Data that cannot be synced is written nevertheless: without a power cut nothing is lost.
    pub(crate) fn sync(&self) {
        self.file.sync_data().ok();
    }

    /// How it is divided.
    pub(crate) fn start(&self) -> SpillStart {
        self.start
    }

    pub(crate) fn caps(&self) -> Caps {
        Caps { head: self.start.head, ring: self.start.ring }
    }

    /// Bytes behind the header, holes included.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len()).saturating_sub(self.start.header)
    }

    /// None: it has no header, or nobody has written this one.
    pub(crate) fn read_extent(&self) -> Option<Extent> {
        let mut bytes = [0; ENCODED];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        Extent::decode(&bytes)
    }

    pub(crate) fn write_extent(&self, extent: Extent) -> io::Result<()> {
        self.file.write_all_at(&extent.encode(), 0)
    }

    /// How many bytes are written between two updates of the extent.
    pub(crate) fn mark_every(&self) -> u64 {
        extent::mark_every(self.caps())
    }

    pub(crate) fn head_room(&self, offset: u64) -> u64 {
        (self.start.from + self.start.head).saturating_sub(offset)
    }

    /// How many bytes were written: on a full disk only the first ones, or none.
    pub(crate) fn write_head(&self, offset: u64, bytes: &[u8]) -> usize {
        let position = self.start.header + offset - self.start.from;
        let mut written = 0;
        while written < bytes.len() {
            match self.file.write_at(&bytes[written..], position + written as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(more) => written += more,
            }
        }
        written
    }

    pub(crate) fn write_ring(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let SpillStart { head, ring, header, .. } = self.start;
        // Of a piece larger than the ring only the end survives.
        let skip = bytes.len().saturating_sub(ring as usize);
        let (mut offset, mut rest) = (offset + skip as u64, &bytes[skip..]);
        while !rest.is_empty() {
            let at = offset % ring;
            let (now, later) = rest.split_at(rest.len().min((ring - at) as usize));
            self.file.write_all_at(now, header + head + at)?;
            offset += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Bytes at `offset`, up to the ring's or the head's end. Whether they are in the head is the
    /// caller's to know: one that could not be written is followed by the ring at once.
    pub(crate) fn read(&self, offset: u64, head_end: u64, total: u64, out: &mut [u8]) -> usize {
        let SpillStart { from, head, ring, header } = self.start;
        let (position, contiguous) = if offset < head_end {
            (offset - from, head_end - offset)
        } else {
            let at = offset % ring;
            (head + at, ring - at)
        };
        let want = (out.len() as u64).min(contiguous).min(total - offset) as usize;
        match self.file.read_exact_at(&mut out[..want], header + position) {
            Ok(()) => want,
            Err(_) => 0,
        }
    }

    pub(crate) fn remove(self) {
        // Already gone is as good as removed.
        std::fs::remove_file(&self.path).ok();
    }
}
