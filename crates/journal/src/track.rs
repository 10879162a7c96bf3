//! One stream of a command: how much it is, and what of it is kept where.
//!
//! Kept are a head without holes and a tail that ends with the newest byte; what lies between was dropped.

use crate::extent::Extent;
use crate::log::LogPosition;
use crate::spill::Spill;

#[derive(Debug, Default)]
pub(crate) struct Track {
    pub(crate) total: u64,
    pub(crate) inline: Vec<Piece>,
    pub(crate) spill: Option<Spill>,
    /// End of the contiguous kept bytes from offset 0.
    pub(crate) head_end: u64,
    /// First kept offset after the head; everything between is dropped.
    pub(crate) tail_from: u64,
    /// The spill file's extent covers what is written up to here.
    reserved: u64,
}

#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) stored: Stored,
}

#[derive(Debug)]
pub(crate) enum Stored {
    Log(LogPosition),
    /// The disk was full when it came: results stay right for a while.
    Memory(Box<[u8]>),
}

impl Track {
    /// A piece that the log has taken, or memory; None: it could not be stored.
    pub(crate) fn add_inline(&mut self, len: u64, stored: Option<Stored>) {
        let offset = self.total;
        self.total += len;
        match stored {
            Some(stored) => {
                self.inline.push(Piece { offset, len, stored });
                self.head_end = self.total;
            }
            None => self.tail_from = self.total,
        }
    }

    /// What the spill file is to say when data may be written up to `reserved`.
    pub(crate) fn extent(&self, reserved: u64) -> Extent {
        Extent { total: self.total, head_end: self.head_end, tail_from: self.tail_start(), reserved }
    }

    /// The file says what was written before it.
    pub(crate) fn begin_spill(&mut self, spill: Spill) {
        self.spill = Some(spill);
        self.reserved = self.total;
    }

    /// Writes to the spill file. If a part does not fit, it is dropped, and the tail begins after it.
    pub(crate) fn spill_over(&mut self, bytes: &[u8]) {
        let offset = self.total;
        let end = offset + bytes.len() as u64;
        let is_covered = self.reserve(end);
        self.total = end;
        if !is_covered || !self.write(offset, bytes) {
            self.tail_from = end;
            // The file must say so before it gets anything else.
            self.reserved = 0;
        }
    }

    fn reserve(&mut self, end: u64) -> bool {
        let Some(spill) = &self.spill else { return false };
        if end <= self.reserved {
            return true;
        }
        let reserved = end + spill.mark_every();
        let is_written = spill.write_extent(self.extent(reserved)).is_ok();
        self.reserved = if is_written { reserved } else { 0 };
        is_written
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let Some(spill) = &self.spill else { return false };
        let into_head = if self.head_end == offset {
            spill.head_room(offset).min(bytes.len() as u64) as usize
        } else {
            0
        };
        let (head, ring) = bytes.split_at(into_head);
        let in_head = spill.write_head(offset, head);
        self.head_end += in_head as u64;
        in_head == head.len() && spill.write_ring(offset + in_head as u64, ring).is_ok()
    }

    /// Nothing more is expected: whoever reads the file back can rely on all of it.
    pub(crate) fn seal(&mut self) {
        if let Some(spill) = &self.spill {
            let is_written = spill.write_extent(self.extent(self.total)).is_ok();
            self.reserved = if is_written { self.total } else { 0 };
        }
    }

    /// Takes over the file of a process that is gone.
    pub(crate) fn adopt(&mut self, spill: Spill, extent: Extent) {
        let (start, caps, bytes) = (spill.start(), spill.caps(), spill.data_bytes());
        let longest = start.from.saturating_add(bytes.min(caps.head));
        // A head that is followed by a gap has the end that the extent says; behind any other it may have grown.
        let in_head = if extent.tail_from > extent.head_end { extent.head_end.min(longest) } else { longest };
        let extent = Extent { total: extent.total.max(in_head), ..extent };
        self.total = self.total.max(extent.total);
        if start.from == self.head_end {
            self.head_end = in_head;
        }
        self.tail_from = extent.tail_from(self.total, caps, bytes).max(in_head).min(self.total);
        self.spill = Some(spill);
    }

    pub(crate) fn tail_start(&self) -> u64 {
        let ring = self.spill.as_ref().map_or(0, |spill| self.total.saturating_sub(spill.caps().ring));
        self.tail_from.max(ring).max(self.head_end).min(self.total)
    }
}
