//! The head and the tail of one stream, within a limit, for whoever shows or returns output.

use std::collections::VecDeque;

use serde::Serialize;

/// Bytes of one stream, in order. What does not fit is dropped from the middle and counted:
/// the beginning tells what a command does, the end how it went.
#[derive(Debug)]
pub struct HeadTail {
    start: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    seen: u64,
}

/// A part of the output that is not shown, but kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Cut {
    pub offset: u64,
    pub bytes: u64,
}

impl HeadTail {
    /// From `start` on, at most `limit` bytes.
    pub fn new(start: u64, limit: usize) -> HeadTail {
        let head_room = limit / 2;
        HeadTail {
            start,
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room,
            tail_room: limit - head_room,
            seen: 0,
        }
    }

    /// Takes the bytes at `offset`; what lies between them and the last is no longer kept anywhere.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) {
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

    pub fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// Offset after the last byte seen.
    pub fn end(&self) -> u64 {
        self.start + self.seen
    }

    pub fn cut(&self) -> Option<Cut> {
        let shown = (self.head.len() + self.tail.len()) as u64;
        let bytes = self.seen - shown;
        (bytes > 0).then(|| Cut { offset: self.start + self.head.len() as u64, bytes })
    }

    /// Head and tail as text; the tail is empty where nothing is cut.
    pub fn texts(self) -> (String, String) {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (head, tail) = self.parts();
        (text(head), text(tail))
    }

    /// Head and tail without the character that the cut went through; the tail is empty where
    /// nothing is cut.
    pub fn parts(mut self) -> (Vec<u8>, Vec<u8>) {
        let cut = self.cut().is_some();
        let tail = self.tail.make_contiguous();
        if !cut {
            self.head.extend_from_slice(tail);
            return (self.head, Vec::new());
        }
        let tail = whole_tail(tail).to_vec();
        self.head.truncate(whole_head(&self.head).len());
        (self.head, tail)
    }

    /// Bytes that have been seen and are not held.
    pub fn left_out(&self) -> u64 {
        self.cut().map_or(0, |cut| cut.bytes)
    }

    /// Nothing is kept up to this offset.
    pub fn skip(&mut self, to: u64) {
        if to > self.end() {
            self.push(to, &[]);
        }
    }

    /// What came last, for a look at what goes on.
    pub fn recent(&self) -> String {
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

    fn collect(limit: usize, chunks: &[&str]) -> HeadTail {
        let mut kept = HeadTail::new(0, limit);
        let mut offset = 0;
        for chunk in chunks {
            kept.push(offset, chunk.as_bytes());
            offset += chunk.len() as u64;
        }
        kept
    }

    #[test]
    fn what_fits_is_whole_however_it_came() {
        for chunks in [&["abcdefgh"][..], &["a", "bcd", "efgh"], &["abcdefg", "h"]] {
            let kept = collect(8, chunks);
            assert_eq!(kept.cut(), None);
            assert_eq!(kept.texts(), ("abcdefgh".to_owned(), String::new()));
        }
    }

    #[test]
    fn what_does_not_fit_is_missing_in_the_middle_and_counted() {
        for chunks in [&["0123456789abc"][..], &["01", "23456", "789abc"], &["0123456789ab", "c"]] {
            let kept = collect(8, chunks);
            assert_eq!(kept.cut(), Some(Cut { offset: 4, bytes: 5 }));
            assert_eq!(kept.end(), 13);
            assert_eq!(kept.texts(), ("0123".to_owned(), "9abc".to_owned()));
        }
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let kept = collect(6, &["é€€€é"]);
        assert_eq!(kept.texts(), ("é".to_owned(), "é".to_owned()));
    }

    #[test]
    fn bytes_that_are_gone_count_as_cut() {
        let mut kept = HeadTail::new(0, 8);
        kept.push(0, b"ab");
        kept.push(10, b"cd");
        assert_eq!(kept.cut(), Some(Cut { offset: 2, bytes: 8 }));
        let mut later = HeadTail::new(5, 8);
        later.push(9, b"x");
        assert_eq!((later.cut(), later.end()), (None, 10));
    }
}
