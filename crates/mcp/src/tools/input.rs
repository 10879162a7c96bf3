//! `input`: text and keys for a running command, and what it says to them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use trl_client::Client;
use trl_protocol::Fault;
use trl_protocol::exec::{AttachParams, Encoding, Screen, ScreenParams, WriteParams};

use super::keys;
use super::output::info;
use super::run::{MAX_OUTPUT, seconds};
use crate::fault;
use crate::follow::{Heard, Until, follow};
use crate::report::{Facts, Progress, Report};
use crate::toolbox::{Call, Hints, Spec};
use trl_client::HeadTail;

/// How long an answer to the input is waited for.
const WAIT_S: f64 = 5.0;
/// After so long without a word it has said what it has to say.
const QUIET: Duration = Duration::from_millis(300);

pub(crate) struct Input;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// From `run`
    exec_id: String,
    /// Typed as it is; end a line with \n
    #[serde(default)]
    text: Option<String>,
    /// Pasted as one block, of any length; press enter afterwards if it is to be taken
    #[serde(default)]
    paste: Option<String>,
    /// Pressed last: enter, tab, esc, up, home, pageup, backspace, delete, f1-f12, with ctrl-, alt- or shift-
    #[serde(default)]
    keys: Vec<String>,
    /// Close stdin afterwards
    #[serde(default)]
    eof: bool,
    /// Return what it answers within this long. Default 5
    #[serde(default)]
    wait_s: Option<f64>,
}

/// What the program has asked of its terminal, where that makes a difference to what is typed.
async fn modes(client: &Client, args: &Args, tty: bool) -> Result<keys::Modes, Fault> {
    if !tty || (args.keys.is_empty() && args.paste.is_none()) {
        return Ok(keys::Modes::default());
    }
    let params = ScreenParams { exec_id: Some(args.exec_id.clone()), session_id: None };
    let Screen { application_cursor, bracketed_paste, .. } =
        client.exec_screen(&params).await.map_err(fault::of)?;
    Ok(keys::Modes { application_cursor, bracketed_paste })
}

/// It is not lost, but the program may never see it.
fn unread(bytes: u64) -> String {
    format!("the program has not read all that was typed: {bytes} bytes wait until it does")
}

/// Whoever tries again would type it twice.
fn typed_all_the_same(fault: Fault) -> Fault {
    let message = format!("it was typed, but what came of it is unknown: {}", fault.message);
    Fault { message: message.into(), ..fault }
}

impl Spec for Input {
    const NAME: &'static str = "input";
    const ABOUT: &'static str =
        "Type into a running command that was started with interactive=true, and see what it answers.";
    const HINTS: Hints = Hints::Destroys { idempotent: false };
    const OPEN_WORLD: bool = true;
    type Args = Args;
    type Answer = Report;

    async fn call(args: Args, call: Call) -> Result<(String, Report), Fault> {
        let client = &call.guest.client;
        let before = info(client, &args.exec_id).await?;
        let soft = seconds("wait_s", args.wait_s.unwrap_or(WAIT_S))?;
        let modes = modes(client, &args, before.tty).await?;
        let mut data = args.text.unwrap_or_default();
        data.push_str(&keys::pasted(args.paste.as_deref().unwrap_or_default(), modes));
        for key in &args.keys {
            data.push_str(&keys::bytes(key, modes)?);
        }
        if data.is_empty() && !args.eof {
            return Err(Fault::invalid("nothing to type: give `text`, `paste`, `keys` or `eof`"));
        }
        let write = WriteParams {
            exec_id: args.exec_id.clone(),
            data,
            encoding: Encoding::Utf8,
            eof: args.eof,
            write_id: Some(format!("mcp-{:08x}", getrandom::u32().unwrap_or_default())),
            ..WriteParams::default()
        };
        client.exec_write(&write).await.map_err(fault::of)?;

        let from = call.guest.readings.answered(before.exec_id).seen;
        let attach = AttachParams {
            exec_id: args.exec_id,
            stdout_offset: from[0],
            stderr_offset: from[1],
            encoding: Encoding::Base64,
        };
        let stream = client.attach(&attach).await.map_err(fault::of).map_err(typed_all_the_same)?;
        let until = Until { soft, quiet: Some(QUIET), ends_command: false };
        let streams = from.map(|start| HeadTail::new(start, MAX_OUTPUT));
        let heard = follow(client, stream, streams, until, (&call.teller, &call.ct), |_| {}).await?;
        let Heard { exec_id, mut progress, streams } = heard;
        let mut notes = Vec::new();
        if matches!(progress, Progress::Running) {
            let info = info(client, &exec_id.to_string()).await?;
            progress = Progress::of(&info);
            notes.extend(info.stdin_waiting_bytes.map(unread));
        }
        call.guest.readings.showed(exec_id, [streams[0].end(), streams[1].end()]);
        let told = Facts {
            session: call.guest.name_of(before.session_id).await,
            exec_id,
            progress,
            streams,
            ansi: false,
            matched: None,
            notes,
        }
        .told();
        Ok((told.text, told.report))
    }
}
