//! `trl envelope`: the body of a message, taken apart or put together.

use std::io::Read as _;

use trl_mail::clock::{Clock as _, SystemClock};
use trl_mail::envelope::{self, Defaults, EncodeInput};

use crate::failure::{Failure, Result};
use crate::output::Output;

/// Decode and encode message bodies, for debugging
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// A body on stdin → its content as JSON
    Decode,
    /// JSON on stdin → the body: agent_address, from_session, to_session, in_reply_to, auto, role, text,
    /// message_id, cwd, harness_session_id, now
    Encode,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<u8> {
    let mut given = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut given)
        .map_err(|error| Failure::system("reading stdin", error))?;
    match args.action {
        Action::Decode => output.json(&envelope::decode_bytes(&given))?,
        // Exactly the body: a newline of ours would be part of what a reader hashes.
        Action::Encode => output.text(&encode(&given)?)?,
    }
    Ok(0)
}

fn encode(given: &[u8]) -> Result<String> {
    let input: EncodeInput = serde_json::from_slice(given)
        .map_err(|error| Failure::usage(format!("stdin does not describe a message: {error}")))?;
    let mut random = [0; 9];
    getrandom::fill(&mut random).map_err(|error| Failure::system("getting random bytes", error))?;
    let cwd = std::env::current_dir().map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    let defaults = Defaults { now_ms: SystemClock.now_ms(), message_id: envelope::message_id(random), cwd };
    envelope::encode(&input, &defaults).map_err(|error| Failure::usage(error.to_string()))
}
