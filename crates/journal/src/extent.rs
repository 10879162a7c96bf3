//! What a spill file holds, in its first bytes.
//!
//! They are overwritten in place: that needs no room on the disk, and the file stays bounded however much a
//! command prints. They are updated before data is written that they do not cover, so that a reader
//! after a crash knows which bytes may have been overwritten since.

use crate::Caps;

/// Room for them in the file.
pub(crate) const HEADER: u64 = 64;
pub(crate) const ENCODED: usize = MAGIC.len() + 4 * size_of::<u64>();
const MAGIC: [u8; 8] = *b"trlspil1";

/// No stream is longer: beyond it a number in a file is damage.
pub(crate) const MOST: u64 = 1 << 48;
/// No more was written at once by versions whose files have no header.
const PIECE: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of the stream, kept or not.
    pub(crate) total: u64,
    /// End of the contiguous kept bytes from offset 0.
    pub(crate) head_end: u64,
    /// First kept offset after the head.
    pub(crate) tail_from: u64,
    /// Data may have been written up to this offset since.
    pub(crate) reserved: u64,
}

impl Extent {
    pub(crate) fn encode(self) -> [u8; ENCODED] {
        let mut bytes = [0; ENCODED];
        let fields = [self.total, self.head_end, self.tail_from, self.reserved].map(u64::to_le_bytes);
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        bytes[MAGIC.len()..].copy_from_slice(fields.as_flattened());
        bytes
    }

    /// None: nobody has written such an extent.
    pub(crate) fn decode(bytes: &[u8; ENCODED]) -> Option<Extent> {
        let fields = bytes.strip_prefix(&MAGIC)?.as_chunks().0;
        let [total, head_end, tail_from, reserved] = *fields else { return None };
        let [total, head_end, tail_from, reserved] =
            [total, head_end, tail_from, reserved].map(u64::from_le_bytes);
        let is_sane =
            head_end <= tail_from && tail_from <= total && total <= reserved && reserved <= 2 * MOST;
        is_sane.then_some(Extent { total, head_end, tail_from, reserved })
    }

    /// For a file without a header, by an earlier version: from its length and the records of the log.
    pub(crate) fn of_old_file(marks: &Marks, caps: Caps, length: u64) -> Extent {
        // What was lost before the file could be made can only be followed by a tail.
        let in_head = if marks.since > marks.from { 0 } else { length.min(caps.head) };
        let head_end = marks.from.saturating_add(in_head);
        let total = marks.total.max(head_end);
        let unmarked = if marks.certain { 0 } else { PIECE + mark_every(caps) };
        Extent {
            total,
            head_end,
            tail_from: head_end.max(marks.since).min(total),
            reserved: total.saturating_add(unmarked),
        }
    }

    /// The tail that a file with so much data has, of a stream with `total` bytes: where it begins.
    pub(crate) fn tail_from(self, total: u64, caps: Caps, length: u64) -> u64 {
        let overwritten = self.reserved.saturating_sub(caps.ring);
        let tail_from = self.tail_from.max(overwritten).min(total);
        let is_whole =
            total <= self.total && length >= caps.head.saturating_add(caps.extent_of(tail_from, total));
        if is_whole { tail_from } else { total }
    }
}

/// What the log says of a file without a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) from: u64,
    /// The first offset that was written to it.
    pub(crate) since: u64,
    pub(crate) total: u64,
    /// Nothing was written after the last mark.
    pub(crate) certain: bool,
}

/// How many bytes are written between two updates.
pub(crate) fn mark_every(caps: Caps) -> u64 {
    (caps.ring / 16).clamp(1, 1024 * 1024)
}

impl Caps {
    /// How much of the ring must be there to hold these offsets.
    fn extent_of(self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let (first, last) = (from % self.ring, (to - 1) % self.ring);
        if to - from >= self.ring || first > last { self.ring } else { last + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { head: 10, ring: 16 << 20 };

    #[test]
    fn an_extent_is_read_as_it_was_written_and_no_other() {
        let extent = Extent { total: 4, head_end: 2, tail_from: 3, reserved: 5 };
        let bytes = extent.encode();
        assert_eq!(Extent::decode(&bytes), Some(extent));
        assert_eq!(Extent::decode(&[0; ENCODED]), None);
        let mut other = bytes;
        other[0] ^= 1;
        assert_eq!(Extent::decode(&other), None);
        for (total, head_end, tail_from, reserved) in
            [(4, 4, 3, 5), (4, 2, 5, 5), (4, 2, 3, 3), (4, 2, 3, 2 * MOST + 1)]
        {
            let extent = Extent { total, head_end, tail_from, reserved };
            assert_eq!(Extent::decode(&extent.encode()), None, "{extent:?}");
        }
    }

    #[test]
    fn a_file_without_a_header_is_as_its_marks_say() {
        let mib = 1 << 20;
        let marks = |since, total, certain| Marks { from: 3, since, total, certain };
        let extent = |total, head_end, tail_from, reserved| Extent { total, head_end, tail_from, reserved };
        for (marks, length, expected) in [
            // More than the last mark says is in the head.
            (marks(3, 3, false), 4, extent(7, 7, 7, 7 + 2 * mib)),
            (marks(3, 13, true), 10, extent(13, 13, 13, 13)),
            (marks(3, 20, true), 50, extent(20, 13, 13, 20)),
            // The last mark may be followed by one more piece, and by as much as comes between two marks.
            (marks(3, 20, false), 50, extent(20, 13, 13, 20 + 2 * mib)),
            // Bytes were lost before there was a file.
            (marks(5, 20, true), 50, extent(20, 3, 5, 20)),
        ] {
            assert_eq!(Extent::of_old_file(&marks, CAPS, length), expected, "{marks:?} {length}");
        }
    }

    #[test]
    fn a_tail_begins_where_nothing_is_overwritten_and_the_file_has_it_all() {
        let caps = Caps { head: 10, ring: 8 };
        for (tail_from, total, reserved, stream, length, expected) in [
            (13, 18, 18, 18, 18, 13),
            // It wraps: the whole ring is needed.
            (13, 18, 18, 18, 17, 18),
            // 16 and 17 are at the ring's begin.
            (16, 18, 18, 18, 12, 16),
            (16, 18, 18, 18, 11, 18),
            // What may have been written since lies over the oldest bytes.
            (13, 18, 24, 18, 18, 16),
            (13, 18, 99, 18, 18, 18),
            (13, 40, 40, 40, 18, 32),
            // There was more than the file says.
            (13, 18, 18, 19, 18, 19),
            // No tail, and no ring.
            (13, 13, 13, 13, 10, 13),
            (13, 13, 13, 20, 10, 20),
        ] {
            let extent = Extent { total, head_end: 13, tail_from, reserved };
            let case = format!("{extent:?}, {stream} bytes, file of {length}");
            assert_eq!(extent.tail_from(stream, caps, length), expected, "{case}");
        }
    }
}
