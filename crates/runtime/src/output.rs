//! Output in one piece: what a reply holds of a stream, and how it says what is missing.
//!
//! A host sends the head and the tail that fit. What lies between is replaced by a
//! line of its own that tells how much is left out and how to read it. With base64
//! that line is in the decoded bytes, at the same place.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::ExecId;
use trl_protocol::exec::{Encoding, Stream};

use crate::text::{incomplete_tail, orphaned_head};

/// Bytes of one stream, from an offset on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) stream: Stream,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// One stream of a finished command, as its reply holds it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Composed {
    pub(crate) text: String,
    pub(crate) truncated: bool,
    pub(crate) lossy: bool,
}

/// Which stream of which command, how much of it there is and is no longer kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    pub(crate) exec: ExecId,
    pub(crate) stream: Stream,
    pub(crate) total: u64,
    pub(crate) dropped: u64,
}

/// Adds `bytes` to the ranges, to the last one if they go on where it ends.
pub(crate) fn append(ranges: &mut Vec<Range>, stream: Stream, offset: u64, bytes: &[u8]) {
    if let Some(last) = ranges.iter_mut().rev().find(|range| range.stream == stream)
        && last.offset + last.bytes.len() as u64 == offset
    {
        last.bytes.extend_from_slice(bytes);
        return;
    }
    ranges.push(Range { stream, offset, bytes: bytes.to_vec() });
}

/// Puts the ranges of one stream together.
pub(crate) fn compose(source: Source, ranges: &mut Vec<Range>, encoding: Encoding) -> Composed {
    let (mut own, others) =
        std::mem::take(ranges).into_iter().partition::<Vec<Range>, _>(|range| range.stream == source.stream);
    *ranges = others;
    let whole = matches!(&own[..], [only] if only.offset == 0 && only.bytes.len() as u64 >= source.total);
    let bytes = match own.pop() {
        None => return Composed { text: String::new(), truncated: source.total > 0, lossy: false },
        Some(only) if whole => only.bytes,
        Some(last) => {
            own.push(last);
            join(source, &mut own, encoding)
        }
    };
    let (text, lossy) = encode(bytes, encoding);
    Composed { text, truncated: !whole, lossy }
}

/// As asked for; whether anything had to be replaced.
pub(crate) fn encode(bytes: Vec<u8>, encoding: Encoding) -> (String, bool) {
    match encoding {
        Encoding::Base64 => (STANDARD.encode(&bytes), false),
        Encoding::Utf8 => match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        },
    }
}

fn join(source: Source, ranges: &mut [Range], encoding: Encoding) -> Vec<u8> {
    let last = ranges.len() - 1;
    if encoding == Encoding::Utf8 {
        for (index, range) in ranges.iter_mut().enumerate() {
            let end = range.offset + range.bytes.len() as u64;
            if index < last || end < source.total {
                range.bytes.truncate(range.bytes.len() - incomplete_tail(&range.bytes));
            }
            if range.offset > 0 {
                let skipped = orphaned_head(&range.bytes);
                range.bytes.drain(..skipped);
                range.offset += skipped as u64;
            }
        }
    }
    let mut joined = Vec::with_capacity(ranges.iter().map(|range| range.bytes.len()).sum::<usize>() + 160);
    let mut position = 0;
    for range in ranges.iter() {
        if range.offset > position {
            leave_out(&mut joined, source, position, range.offset);
        }
        joined.extend_from_slice(&range.bytes);
        position = range.offset + range.bytes.len() as u64;
    }
    if position < source.total {
        leave_out(&mut joined, source, position, source.total);
    }
    joined
}

/// The line that stands for the bytes between the two offsets. It always has a newline
/// of its own before and after it, so that head and tail can be told from it exactly.
fn leave_out(joined: &mut Vec<u8>, source: Source, from: u64, to: u64) {
    let mut line = String::from("\n");
    let Source { exec, stream, dropped, .. } = source;
    let count = to - from;
    let written = if dropped >= count {
        writeln!(line, "… {count} bytes left out; they are no longer kept …")
    } else {
        let lost = if dropped > 0 { format!(" ({dropped} of them no longer kept)") } else { String::new() };
        let stream = stream.name();
        writeln!(
            line,
            "… {count} bytes left out{lost}; read them with exec.output: {exec}, {stream}, offset {from} …"
        )
    };
    debug_assert!(written.is_ok(), "a String takes all");
    joined.extend_from_slice(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXEC: ExecId = ExecId { session: trl_protocol::SessionId(1), number: 2 };

    fn composed(ranges: &[(u64, &[u8])], total: u64, dropped: u64, encoding: Encoding) -> Composed {
        let mut ranges: Vec<Range> = ranges
            .iter()
            .map(|(offset, bytes)| Range { stream: Stream::Stdout, offset: *offset, bytes: bytes.to_vec() })
            .collect();
        let source = Source { exec: EXEC, stream: Stream::Stdout, total, dropped };
        compose(source, &mut ranges, encoding)
    }

    #[test]
    fn what_is_whole_stays_as_it_is() {
        for text in ["", "a", "a\n", "€\r\n\0"] {
            let ranges: &[(u64, &[u8])] = if text.is_empty() { &[] } else { &[(0, text.as_bytes())] };
            assert_eq!(
                composed(ranges, text.len() as u64, 0, Encoding::Utf8),
                Composed { text: text.into(), truncated: false, lossy: false }
            );
        }
        assert_eq!(
            composed(&[(0, b"a\xff")], 2, 0, Encoding::Utf8),
            Composed { text: "a\u{FFFD}".into(), truncated: false, lossy: true }
        );
        assert_eq!(
            composed(&[(0, b"a\xff")], 2, 0, Encoding::Base64),
            Composed { text: "Yf8=".into(), truncated: false, lossy: false }
        );
    }

    #[test]
    fn what_is_missing_is_told_on_a_line_of_its_own() {
        let hint = "; read them with exec.output: e-00000001-2, stdout, offset";
        type Ranges = &'static [(u64, &'static [u8])];
        let cases: &[(Ranges, u64, u64, String)] = &[
            (
                &[(0, b"head\n"), (95, b"tail\n")],
                100,
                0,
                format!("head\n\n… 90 bytes left out{hint} 5 …\ntail\n"),
            ),
            (
                &[(0, b"head"), (95, b"tail\n")],
                100,
                0,
                format!("head\n… 91 bytes left out{hint} 4 …\ntail\n"),
            ),
            (&[(0, b"head\n")], 100, 0, format!("head\n\n… 95 bytes left out{hint} 5 …\n")),
            (
                &[(0, b"h\n"), (99, b"t")],
                100,
                97,
                "h\n\n… 97 bytes left out; they are no longer kept …\nt".into(),
            ),
            (
                &[(0, b"h\n"), (99, b"t")],
                100,
                7,
                format!("h\n\n… 97 bytes left out (7 of them no longer kept){hint} 2 …\nt"),
            ),
            (&[], 100, 0, String::new()),
            // Characters at the inner edges are taken out whole.
            (&[(0, b"a\xe2\x82"), (50, b"\x82\xacz")], 53, 0, format!("a\n… 51 bytes left out{hint} 1 …\nz")),
        ];
        for (ranges, total, dropped, expected) in cases {
            let composed = composed(ranges, *total, *dropped, Encoding::Utf8);
            assert_eq!(composed.text, *expected);
            assert!(composed.truncated && !composed.lossy);
        }
    }

    #[test]
    fn bytes_that_go_on_make_one_range() {
        let mut ranges = Vec::new();
        append(&mut ranges, Stream::Stdout, 0, b"ab");
        append(&mut ranges, Stream::Stderr, 0, b"x");
        append(&mut ranges, Stream::Stdout, 2, b"cd");
        append(&mut ranges, Stream::Stdout, 9, b"e");
        let sizes: Vec<_> = ranges.iter().map(|r| (r.stream, r.offset, r.bytes.len())).collect();
        assert_eq!(sizes, [(Stream::Stdout, 0, 4), (Stream::Stderr, 0, 1), (Stream::Stdout, 9, 1)]);
    }
}
