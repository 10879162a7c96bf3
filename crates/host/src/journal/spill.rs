//! A file for one stream of a talkative command: a head that stays and a ring
//! that always holds the newest bytes. Sparse, so it costs what was written.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::Caps;

#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    path: PathBuf,
    /// Offset of the first byte that this file may hold.
    from: u64,
    caps: Caps,
}

impl Spill {
    pub(super) fn create(path: PathBuf, from: u64, caps: Caps) -> io::Result<Spill> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&path)?;
        Ok(Spill { file, path, from, caps })
    }

    pub(super) fn caps(&self) -> Caps {
        self.caps
    }

    pub(super) fn head_room(&self, offset: u64) -> u64 {
        (self.from + self.caps.head).saturating_sub(offset)
    }

    pub(super) fn write_head(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset - self.from)
    }

    pub(super) fn write_ring(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
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

    /// Bytes at `offset`, up to the ring's or the head's end.
    pub(super) fn read(&self, offset: u64, total: u64, out: &mut [u8]) -> usize {
        let head_end = self.from + self.caps.head;
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

    pub(super) fn remove(self) {
        // Already gone is as good as removed.
        std::fs::remove_file(&self.path).ok();
    }
}
