//! Output as text: whole characters, whatever the cuts between reads.
//!
//! A character that a chunk ends inside of is held back until its other bytes come
//! or are known never to. Bytes that are no UTF-8 become U+FFFD; offsets go on
//! counting bytes as the command wrote them.

use std::borrow::Cow;

/// Text of one stream, chunk by chunk.
#[derive(Debug, Default)]
pub(crate) struct TextStream {
    /// The beginning of a character, at most three bytes.
    held: Vec<u8>,
    /// Offset after the last byte seen.
    end: u64,
    /// Something was no UTF-8 and stands as U+FFFD.
    pub(crate) lossy: bool,
}

/// A piece of text and the offset of its first byte.
pub(crate) type Piece<'a> = (u64, Cow<'a, str>);

impl TextStream {
    /// The text that `bytes` at `offset` complete: what was held back, now whole (or
    /// known not to be), and the rest.
    pub(crate) fn push<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> [Option<Piece<'a>>; 2] {
        let mut first = None;
        let mut rest = bytes;
        if !self.held.is_empty() {
            if offset == self.end {
                let taken = complete(&mut self.held, bytes);
                rest = &bytes[taken..];
                if rest.is_empty() && incomplete_tail(&self.held) == self.held.len() {
                    self.end = offset + bytes.len() as u64;
                    return [None, None];
                }
                let start = offset + taken as u64 - self.held.len() as u64;
                let held = std::mem::take(&mut self.held);
                first = Some((start, self.owned(&held)));
            } else {
                first = self.finish();
            }
        }
        let start = offset + (bytes.len() - rest.len()) as u64;
        self.end = offset + bytes.len() as u64;
        let whole = rest.len() - incomplete_tail(rest);
        self.held.extend_from_slice(&rest[whole..]);
        let second = (whole > 0).then(|| (start, decode(&rest[..whole])));
        self.lossy |= second.as_ref().is_some_and(|(_, text)| matches!(text, Cow::Owned(_)));
        [first, second]
    }

    /// What is still held back, as it is: the stream has ended, or goes on elsewhere.
    pub(crate) fn finish(&mut self) -> Option<Piece<'static>> {
        if self.held.is_empty() {
            return None;
        }
        let held = std::mem::take(&mut self.held);
        let start = self.end - held.len() as u64;
        Some((start, self.owned(&held)))
    }

    fn owned(&mut self, bytes: &[u8]) -> Cow<'static, str> {
        let text = decode(bytes);
        self.lossy |= matches!(text, Cow::Owned(_));
        Cow::Owned(text.into_owned())
    }
}

/// The standard library's lossy decoding looks at every byte; its strict one is many
/// times faster, and nearly always enough.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Moves bytes to `held` until the character there is whole or broken; how many were taken.
fn complete(held: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let mut taken = 0;
    while taken < bytes.len() && incomplete_tail(held) == held.len() {
        // A byte that cannot go on with this character belongs to what follows.
        if bytes[taken] & 0xC0 != 0x80 {
            break;
        }
        held.push(bytes[taken]);
        taken += 1;
    }
    taken
}

/// How many bytes at the end are the beginning of a character and not all of it.
pub(crate) fn incomplete_tail(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    for start in (from..bytes.len()).rev() {
        let byte = bytes[start];
        if byte < 0x80 {
            return 0;
        }
        if byte >= 0xC0 {
            return match std::str::from_utf8(&bytes[start..]) {
                Err(error) if error.error_len().is_none() => bytes.len() - start,
                _ => 0,
            };
        }
    }
    0
}

/// How many bytes at the beginning are the end of a character that began before.
pub(crate) fn orphaned_head(bytes: &[u8]) -> usize {
    let continuing = bytes.iter().take(4).take_while(|byte| **byte & 0xC0 == 0x80).count();
    if continuing > 3 { 0 } else { continuing }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(chunks: &[&[u8]]) -> Vec<(u64, String)> {
        let mut stream = TextStream::default();
        let mut offset = 0;
        let mut pieces = Vec::new();
        for chunk in chunks {
            for (at, text) in stream.push(offset, chunk).into_iter().flatten() {
                pieces.push((at, text.into_owned()));
            }
            offset += chunk.len() as u64;
        }
        pieces.extend(stream.finish().map(|(at, text)| (at, text.into_owned())));
        pieces
    }

    #[test]
    fn every_cut_of_valid_text_gives_that_text_with_byte_offsets() {
        let text = "aé€😀\nx😀";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let bytes = text.as_bytes();
                let pieces = collect(&[&bytes[..first], &bytes[first..second], &bytes[second..]]);
                let mut joined = String::new();
                for (offset, piece) in &pieces {
                    assert_eq!(*offset, joined.len() as u64, "{first} {second} {pieces:?}");
                    assert!(!piece.is_empty() && !piece.contains('\u{FFFD}'));
                    joined.push_str(piece);
                }
                assert_eq!(joined, text);
            }
        }
    }

    #[test]
    fn what_is_no_text_is_replaced_and_counted_in_bytes() {
        type Chunks = &'static [&'static [u8]];
        type Pieces = &'static [(u64, &'static str)];
        let cases: &[(Chunks, Pieces)] = &[
            (&[b"\xff"], &[(0, "\u{FFFD}")]),
            (&[b"a\x80b"], &[(0, "a\u{FFFD}b")]),
            (&[b"\xe2\x82", b"x"], &[(0, "\u{FFFD}"), (2, "x")]),
            (&[b"\xe2", b"\x82", b"\xac"], &[(0, "€")]),
            (&[b"ab\xf0\x9f"], &[(0, "ab"), (2, "\u{FFFD}")]),
            (&[b"\xe2", b"\xff\xffz"], &[(0, "\u{FFFD}"), (1, "\u{FFFD}\u{FFFD}z")]),
            (&[b"\xf0\x9f", b"", b"\x98\x80"], &[(0, "😀")]),
            (&[b"\xe0\x80", b"y"], &[(0, "\u{FFFD}\u{FFFD}"), (2, "y")]),
        ];
        for (chunks, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
            assert_eq!(collect(chunks), expected, "{chunks:?}");
        }
    }

    #[test]
    fn a_gap_ends_a_character_that_was_begun() {
        let mut stream = TextStream::default();
        assert_eq!(stream.push(0, b"\xe2\x82"), [None, None]);
        assert_eq!(stream.push(10, b"x"), [Some((0, "\u{FFFD}".into())), Some((10, "x".into()))]);
    }
}
