//! A file for one stream of a talkative command: a head that stays and a ring
//! that always holds the newest bytes. Sparse, so it costs what was written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use crate::Caps;

#[derive(Debug)]
pub(crate) struct Spill {
    file: File,
    path: PathBuf,
    /// Offset of the first byte that this file may hold.
    from: u64,
    caps: Caps,
}

impl Spill {
    pub(crate) fn create(path: PathBuf, from: u64, caps: Caps) -> io::Result<Spill> {
        if let Some(dir) = path.parent() {
            trl_sys::private::create_dir(dir)?;
        }
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&path)?;
        Ok(Spill { file, path, from, caps })
    }

    /// One that an earlier process left.
    pub(crate) fn reopen(path: PathBuf, from: u64, caps: Caps) -> io::Result<Spill> {
        let file = OpenOptions::new().read(true).open(&path)?;
        Ok(Spill { file, path, from, caps })
    }

    /// What cannot be synced is told by later reads, as ever.
    pub(crate) fn sync(&self) {
        self.file.sync_data().ok();
    }

    pub(crate) fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len())
    }

    /// How many bytes are written between two marks of the total in the log.
    pub(crate) fn mark_every(&self) -> u64 {
        (self.caps.ring / 16).clamp(1, 1024 * 1024)
    }

    pub(crate) fn caps(&self) -> Caps {
        self.caps
    }

    pub(crate) fn head_room(&self, offset: u64) -> u64 {
        (self.from + self.caps.head).saturating_sub(offset)
    }

    pub(crate) fn write_head(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset - self.from)
    }

    pub(crate) fn write_ring(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let ring = self.caps.ring as usize;
        // Of a piece larger than the ring only the end survives.
        let skip = bytes.len().saturating_sub(ring);
        let (mut offset, mut rest) = (offset + skip as u64, &bytes[skip..]);
        while !rest.is_empty() {
            let at = offset % self.caps.ring;
            let (now, later) = rest.split_at(rest.len().min((self.caps.ring - at) as usize));
            self.file.write_all_at(now, self.caps.head + at)?;
            offset += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Bytes at `offset`, up to the ring's or the head's end. Whether they are in the head is the
    /// caller's to know: one that could not be written is followed by the ring at once.
    pub(crate) fn read(&self, offset: u64, head_end: u64, total: u64, out: &mut [u8]) -> usize {
        let (position, contiguous) = if offset < head_end {
            (offset - self.from, head_end - offset)
        } else {
            let at = offset % self.caps.ring;
            (self.caps.head + at, self.caps.ring - at)
        };
        let want = (out.len() as u64).min(contiguous).min(total - offset) as usize;
        match self.file.read_exact_at(&mut out[..want], position) {
            Ok(()) => want,
            Err(_) => 0,
        }
    }

    pub(crate) fn remove(self) {
        // Already gone is as good as removed.
        std::fs::remove_file(&self.path).ok();
    }
}
