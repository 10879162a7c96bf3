//! `output`: what a command has written since it was last looked at, or any part of it.

use base64::Engine as _;
use schemars::JsonSchema;
use serde::Deserialize;
use trl_client::Client;
use trl_protocol::exec::{Encoding, ExecInfo, ExecParams, OutputParams, OutputReply, Stream};
use trl_protocol::{Code, ExecId, Fault};

use super::run::{MAX_OUTPUT, MOST_OUTPUT};
use crate::fault;
use crate::readings::{Offsets, Reading};
use crate::report::{Facts, Progress, Report};
use crate::toolbox::{Call, Hints, Spec};
use trl_client::HeadTail;

pub(crate) struct Output;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// From `run`
    exec_id: String,
    /// Only this stream. Default: both
    #[serde(default)]
    stream: Option<Stream>,
    /// The two offsets that the last result gives. Without them, what it showed comes again
    #[serde(default)]
    after: Option<Offsets>,
    /// Begin at this byte; negative counts from the end
    #[serde(default)]
    offset: Option<i64>,
    /// Bytes shown of each stream. Default 16000
    #[serde(default)]
    limit: Option<usize>,
    /// Keep escape sequences
    #[serde(default)]
    ansi: bool,
}

impl Spec for Output {
    const NAME: &'static str = "output";
    const ABOUT: &'static str = "Read more output of a command, running or finished, and see how it stands. \
        With after: only what is new.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = Args;
    type Answer = Report;

    async fn call(args: Args, call: Call) -> Result<(String, Report), Fault> {
        let info = info(&call.guest.client, &args.exec_id).await?;
        let asked = Excerpt {
            stream: args.stream,
            after: args.after,
            offset: args.offset,
            limit: args.limit.unwrap_or(MAX_OUTPUT).clamp(1, MOST_OUTPUT),
            ansi: args.ansi,
            ..Excerpt::default()
        };
        shown(&call, info, asked).await
    }
}

/// Which part of a command's output is shown, and what is said beside it.
#[derive(Debug)]
pub(crate) struct Excerpt {
    pub(crate) stream: Option<Stream>,
    /// What the client has.
    pub(crate) after: Option<Offsets>,
    /// Without one: what is new.
    pub(crate) offset: Option<i64>,
    pub(crate) limit: usize,
    pub(crate) ansi: bool,
    pub(crate) matched: Option<String>,
    pub(crate) notes: Vec<String>,
}

impl Default for Excerpt {
    fn default() -> Excerpt {
        Excerpt {
            stream: None,
            after: None,
            offset: None,
            limit: MAX_OUTPUT,
            ansi: false,
            matched: None,
            notes: Vec::new(),
        }
    }
}

/// How a command stands, and the part of its output that is asked for.
pub(crate) async fn shown(call: &Call, info: ExecInfo, asked: Excerpt) -> Result<(String, Report), Fault> {
    let totals = [info.stdout_bytes, info.stderr_bytes];
    // Behind the end of a stream nothing was shown, and what comes there later must not be skipped.
    let after = asked.after.map(|after| [after[0].min(totals[0]), after[1].min(totals[1])]);
    let Reading { seen, shown } = call.guest.readings.resumed(info.exec_id, after);
    let mut next = shown;
    let mut notes = asked.notes;
    let mut streams = seen.map(|start| HeadTail::new(start, asked.limit));
    let mut comes_again = false;
    for stream in Stream::BOTH.into_iter().filter(|stream| asked.stream.is_none_or(|asked| asked == *stream))
    {
        let index = stream.index();
        let start = asked.offset.map_or(seen[index], |offset| start(offset, totals[index]));
        let (read, first) = read(&call.guest.client, info.exec_id, stream, start, asked.limit).await?;
        streams[index] = read;
        if first > start {
            notes.push(format!(
                "{} bytes of {} from offset {start} on are no longer kept",
                first - start,
                stream.name()
            ));
        }
        let end = streams[index].end();
        if asked.offset.is_none() {
            next[index] = end;
            comes_again |= first < shown[index] && end > first;
        }
        if end < totals[index] {
            notes.push(format!(
                "{} more bytes of {} from offset {end} on",
                totals[index] - end,
                stream.name()
            ));
        }
    }
    // What a client no longer waits for, its model does not see.
    if !call.ct.is_cancelled() {
        call.guest.readings.showed(info.exec_id, next);
    }
    if comes_again {
        let ends = [streams[0].end(), streams[1].end()];
        notes.push(format!("some of this was shown before; after={ends:?} shows only what is new"));
    }
    let told = Facts {
        session: call.guest.name_of(info.session_id).await,
        exec_id: info.exec_id,
        progress: Progress::of(&info),
        streams,
        ansi: asked.ansi,
        matched: asked.matched,
        notes,
    }
    .told();
    Ok((told.text, told.report))
}

/// Where a stream of so many bytes is read from: never behind its end.
fn start(offset: i64, total: u64) -> u64 {
    match u64::try_from(offset) {
        Ok(offset) => offset.min(total),
        Err(_) => total.saturating_sub(offset.unsigned_abs()),
    }
}

pub(crate) async fn info(client: &Client, exec_id: &str) -> Result<ExecInfo, Fault> {
    client.exec_info(&ExecParams { exec_id: exec_id.to_owned() }).await.map_err(fault::of)
}

/// The bytes, and the offset of the first: later than asked if those before are no longer kept.
async fn read(
    client: &Client,
    exec_id: ExecId,
    stream: Stream,
    offset: u64,
    limit: usize,
) -> Result<(HeadTail, u64), Fault> {
    let params = OutputParams {
        exec_id: exec_id.to_string(),
        stream,
        offset,
        limit: Some(limit as u64),
        encoding: Encoding::Base64,
    };
    let reply: OutputReply = client.exec_output(&params).await.map_err(fault::of)?;
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(reply.base64.unwrap_or_default())
        .map_err(|error| Fault::new(Code::InternalError, error.to_string()))?;
    let mut collected = HeadTail::new(offset, limit);
    collected.push(reply.offset, &bytes);
    Ok((collected, reply.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_from_within_it() {
        let cases =
            [(0, 10, 0), (4, 10, 4), (10, 10, 10), (11, 10, 10), (5000, 0, 0), (-3, 10, 7), (-30, 10, 0)];
        for (offset, total, expected) in cases {
            assert_eq!(start(offset, total), expected, "{offset} of {total}");
        }
        assert_eq!((start(i64::MIN, 5), start(i64::MAX, 5)), (0, 5));
    }
}
