//! One record of the log: `tj`, kind, stream, command number, offset, length, payload.
//!
//! A record that is not whole (its writer was killed, the disk was full) ends what can
//! be read of its segment; one of an unknown kind, by a newer version, is passed over.

use serde::{Deserialize, Serialize};
use trl_protocol::exec::{Outcome, Stream};

pub(crate) const HEADER: usize = 24;
const MAGIC: [u8; 2] = *b"tj";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Start = 1,
    Data = 2,
    Spill = 3,
    End = 4,
    /// A command that had to wait has begun to run.
    Began = 5,
    /// How many bytes a spilled stream has by now: of versions whose spill files do not say so themselves.
    Mark = 6,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Start, Kind::Data, Kind::Spill, Kind::End, Kind::Began, Kind::Mark]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// What is known of a command when it arrives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    pub command: String,
    pub created_at: String,
    #[serde(default)]
    pub background: bool,
    #[serde(default)]
    pub tty: bool,
    /// It has to wait for its turn; [`Began`] tells that the turn came.
    #[serde(default)]
    pub queued: bool,
    /// How much of each stream its reply holds.
    #[serde(default)]
    pub max_output: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Began {
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub outcome: Outcome,
    pub at: String,
}

/// Where a spilled stream goes on, and how its file is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpillStart {
    pub(crate) from: u64,
    pub(crate) head: u64,
    pub(crate) ring: u64,
    /// Bytes before the head; none in files of earlier versions.
    #[serde(default)]
    pub(crate) header: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// None: of a version that knows more.
    pub(crate) kind: Option<Kind>,
    pub(crate) stream: Option<Stream>,
    pub(crate) exec: u64,
    pub(crate) offset: u64,
    pub(crate) payload: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn put(
        out: &mut Vec<u8>,
        kind: Kind,
        exec: u64,
        stream: Option<Stream>,
        offset: u64,
        payload: &[u8],
    ) {
        out.extend_from_slice(&MAGIC);
        out.push(kind as u8);
        out.push(stream.map_or(0, |stream| stream.index() as u8 + 1));
        out.extend_from_slice(&exec.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    }

    /// The first record of `bytes` and its length; None if there is no whole one.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let (magic, header) = header.split_first_chunk::<2>()?;
        let ([kind, stream], header) = header.split_first_chunk::<2>()?;
        let (exec, header) = header.split_first_chunk::<8>()?;
        let (offset, header) = header.split_first_chunk::<8>()?;
        let (length, _) = header.split_first_chunk::<4>()?;
        let payload = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let stream = match stream {
            0 => None,
            1 => Some(Stream::Stdout),
            2 => Some(Stream::Stderr),
            _ => return None,
        };
        let record = Record {
            kind: Kind::of(*kind),
            stream,
            exec: u64::from_le_bytes(*exec),
            offset: u64::from_le_bytes(*offset),
            payload,
        };
        (*magic == MAGIC).then_some((record, HEADER + payload.len()))
    }
}
