//! `--json`: both streams in memory, head and tail of each within a limit.
//!
//! The command is streamed all the same, so that it can be cancelled, fed, and followed
//! across a restart of the daemon; `exec.run` could be none of these.

use trl_client::{Event, HeadTail};
use trl_protocol::exec::{RunReply, StreamReply};

use super::live::{Sink, gap};
use super::run_reply;
use crate::failure::Result;

#[derive(Debug)]
pub(crate) struct Collected {
    streams: [HeadTail; 2],
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
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Collected { streams: [HeadTail::new(0, limit), HeadTail::new(0, limit)] }
    }

    pub(crate) fn into_reply(self, reply: StreamReply) -> RunReply {
        run_reply(reply, self.streams.map(Text::of))
    }
}

impl Sink for Collected {
    async fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Output { stream, offset, bytes } => self.streams[stream.index()].push(offset, &bytes),
            Event::Gap { stream, from, to } => {
                gap(stream, from, to);
                self.streams[stream.index()].skip(to);
            }
            Event::Started { .. } | Event::Queued { .. } | Event::Waiting { .. } => {}
        }
        Ok(())
    }
}

impl Text {
    fn of(kept: HeadTail) -> Text {
        let (seen, cut) = (kept.end(), kept.left_out() > 0);
        let (mut head, tail) = kept.parts();
        if !cut {
            return Text::from_bytes(head, false);
        }
        let missing = seen - (head.len() + tail.len()) as u64;
        if head.last().is_some_and(|byte| *byte != b'\n') {
            head.push(b'\n');
        }
        head.extend_from_slice(
            format!("… {missing} bytes left out; `trl logs` shows what is kept …\n").as_bytes(),
        );
        head.extend_from_slice(&tail);
        Text::from_bytes(head, true)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit: u64, chunks: &[&[u8]]) -> Text {
        let mut kept = HeadTail::new(0, limit as usize);
        for chunk in chunks {
            kept.push(kept.end(), chunk);
        }
        Text::of(kept)
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
