//! `--json`: both streams in memory, head and tail of each within a limit.
//!
//! The command is streamed all the same, so that it can be cancelled, fed, and followed
//! across a restart of the daemon; `exec.run` could be none of these.

use std::collections::VecDeque;

use trl_client::Event;
use trl_protocol::exec::{RunReply, Stream, StreamReply};

use super::live::{Sink, gap};
use super::run_reply;
use crate::failure::Result;

#[derive(Debug)]
pub(crate) struct Collected {
    streams: [Kept; 2],
}

/// One stream as text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) truncated: bool,
    pub(crate) lossy: bool,
}

impl Collected {
    pub(crate) fn new(limit: u64) -> Collected {
        Collected { streams: [Kept::new(limit), Kept::new(limit)] }
    }

    pub(crate) fn into_reply(self, reply: StreamReply) -> RunReply {
        run_reply(reply, self.streams.map(Kept::into_text))
    }
}

impl Sink for Collected {
    async fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Output { stream, bytes, .. } => self.streams[stream.index()].push(&bytes),
            Event::Gap { stream, from, to } => self.streams[stream.index()].skip(stream, from, to),
            Event::Started { .. } | Event::Waiting { .. } => {}
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Kept {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Kept {
    fn new(limit: u64) -> Kept {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Kept { limit, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = (self.limit - self.limit / 2).saturating_sub(self.head.len());
        let (to_head, to_tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        self.tail.extend(to_tail);
        let excess = self.tail.len().saturating_sub(self.limit / 2);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    fn skip(&mut self, stream: Stream, from: u64, to: u64) {
        gap(stream, from, to);
        self.left_out += to.saturating_sub(from);
    }

    fn into_text(self) -> Text {
        let Kept { mut head, mut tail, left_out, .. } = self;
        let tail = tail.make_contiguous();
        if left_out == 0 {
            head.extend_from_slice(tail);
            return Text::from_bytes(head, false);
        }
        // A character that the cut went through is left out whole, not shown as broken.
        let whole = head.len() - incomplete_end(&head);
        let begin = tail.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let missing = left_out + (head.len() - whole + begin) as u64;
        head.truncate(whole);
        if head.last().is_some_and(|byte| *byte != b'\n') {
            head.push(b'\n');
        }
        head.extend_from_slice(
            format!("… {missing} bytes left out; `trl logs` shows what is kept …\n").as_bytes(),
        );
        head.extend_from_slice(&tail[begin..]);
        Text::from_bytes(head, true)
    }
}

impl Text {
    fn from_bytes(bytes: Vec<u8>, truncated: bool) -> Text {
        match String::from_utf8(bytes) {
            Ok(text) => Text { text, truncated, lossy: false },
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Text { text, truncated, lossy: true }
            }
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// How many bytes at the end begin a character that does not end there.
fn incomplete_end(bytes: &[u8]) -> usize {
    let back = bytes.iter().rev().take(4).position(|byte| !is_continuation(*byte));
    let Some(start) = back.map(|back| bytes.len() - 1 - back) else { return 0 };
    match std::str::from_utf8(&bytes[start..]) {
        Err(error) if error.error_len().is_none() => bytes.len() - start,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit: u64, chunks: &[&[u8]]) -> Text {
        let mut kept = Kept::new(limit);
        for chunk in chunks {
            kept.push(chunk);
        }
        kept.into_text()
    }

    #[test]
    fn what_fits_is_whole() {
        for chunks in [&[&b"hello"[..]][..], &[b"he", b"l", b"lo"], &[]] {
            let text = kept(5, chunks);
            assert_eq!(text.text, chunks.concat().iter().map(|b| *b as char).collect::<String>());
            assert!(!text.truncated && !text.lossy);
        }
        assert!(kept(5, &[b"\xff"]).lossy);
    }

    #[test]
    fn head_and_tail_remain_of_more() {
        let text = kept(8, &[b"abcd\n", b"-----", b"wxyz"]);
        assert_eq!(text.text, "abcd\n… 6 bytes left out; `trl logs` shows what is kept …\nwxyz");
        assert!(text.truncated);
    }

    #[test]
    fn a_cut_through_a_character_leaves_no_ruin() {
        let text = kept(4, &["a€€€€b".as_bytes()]);
        assert_eq!(text.text, "a\n… 12 bytes left out; `trl logs` shows what is kept …\nb");
        assert!(!text.lossy);
    }
}
