//! One stream of a command as it is shown: its head and its tail, within a limit.

use std::collections::VecDeque;

use serde::Serialize;

/// Bytes of one stream, in order. What does not fit is counted, and the middle goes first:
/// a command says at its beginning what it does, and at its end how that went.
#[derive(Debug)]
pub(crate) struct Collected {
    start: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    seen: u64,
}

/// A part of the output that is not shown, but kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Cut {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Collected {
    /// From `start` on, at most `limit` bytes.
    pub(crate) fn new(start: u64, limit: usize) -> Collected {
        let head_room = limit / 2;
        Collected {
            start,
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room,
            tail_room: limit - head_room,
            seen: 0,
        }
    }

    /// Takes the bytes at `offset`; what lies between them and the last is no longer kept anywhere.
    pub(crate) fn push(&mut self, offset: u64, bytes: &[u8]) {
        if self.seen == 0 && offset > self.start {
            self.start = offset;
        }
        if offset > self.end() {
            self.head_room = self.head.len();
        }
        self.seen = offset.saturating_sub(self.start) + bytes.len() as u64;
        let room = self.head_room.saturating_sub(self.head.len());
        let room = if self.tail.is_empty() { room } else { 0 };
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let last = &rest[rest.len().saturating_sub(self.tail_room)..];
        let excess = (self.tail.len() + last.len()).saturating_sub(self.tail_room);
        self.tail.drain(..excess);
        self.tail.extend(last);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// Offset after the last byte seen.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.seen
    }

    pub(crate) fn cut(&self) -> Option<Cut> {
        let shown = (self.head.len() + self.tail.len()) as u64;
        let bytes = self.seen - shown;
        (bytes > 0).then(|| Cut { offset: self.start + self.head.len() as u64, bytes })
    }

    /// Head and tail as text; the tail is empty where nothing is cut.
    pub(crate) fn texts(mut self) -> (String, String) {
        let cut = self.cut().is_some();
        let tail = self.tail.make_contiguous();
        if !cut {
            self.head.extend_from_slice(tail);
            return (String::from_utf8_lossy(&self.head).into_owned(), String::new());
        }
        let whole = whole_head(&self.head);
        (String::from_utf8_lossy(whole).into_owned(), String::from_utf8_lossy(whole_tail(tail)).into_owned())
    }

    /// What came last, for a look at what goes on.
    pub(crate) fn recent(&self) -> String {
        let mut bytes: Vec<u8> = self.tail.iter().rev().take(512).rev().copied().collect();
        if bytes.is_empty() {
            bytes.extend_from_slice(&self.head[self.head.len().saturating_sub(512)..]);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Without the beginning of a character that the cut went through.
fn whole_head(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Without the end of such a character.
fn whole_tail(bytes: &[u8]) -> &[u8] {
    let continuing = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[continuing..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(limit: usize, chunks: &[&str]) -> Collected {
        let mut collected = Collected::new(0, limit);
        let mut offset = 0;
        for chunk in chunks {
            collected.push(offset, chunk.as_bytes());
            offset += chunk.len() as u64;
        }
        collected
    }

    #[test]
    fn what_fits_is_whole_however_it_came() {
        for chunks in [&["abcdefgh"][..], &["a", "bcd", "efgh"], &["abcdefg", "h"]] {
            let collected = collect(8, chunks);
            assert_eq!(collected.cut(), None);
            assert_eq!(collected.texts(), ("abcdefgh".to_owned(), String::new()));
        }
    }

    #[test]
    fn what_does_not_fit_is_missing_in_the_middle_and_counted() {
        for chunks in [&["0123456789abc"][..], &["01", "23456", "789abc"], &["0123456789ab", "c"]] {
            let collected = collect(8, chunks);
            assert_eq!(collected.cut(), Some(Cut { offset: 4, bytes: 5 }));
            assert_eq!(collected.end(), 13);
            assert_eq!(collected.texts(), ("0123".to_owned(), "9abc".to_owned()));
        }
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let collected = collect(6, &["é€€€é"]);
        assert_eq!(collected.texts(), ("é".to_owned(), "é".to_owned()));
    }

    #[test]
    fn bytes_that_are_gone_count_as_cut() {
        let mut collected = Collected::new(0, 8);
        collected.push(0, b"ab");
        collected.push(10, b"cd");
        assert_eq!(collected.cut(), Some(Cut { offset: 2, bytes: 8 }));
        let mut later = Collected::new(5, 8);
        later.push(9, b"x");
        assert_eq!((later.cut(), later.end()), (None, 10));
    }
}
