//! `trl send-input`: writes to a running command's stdin.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::exec::{Encoding, WriteParams};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::human;

/// Bytes of one request, well below the longest line.
const CHUNK: usize = 1024 * 1024;

/// Write to the stdin of a running command
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command's id, as printed by `trl run --detach` and `trl info`
    #[arg(value_name = "COMMAND_ID")]
    exec: String,
    /// What to write; `-` is all of stdin, as it is
    #[arg(value_name = "TEXT|-", required_unless_present = "eof")]
    text: Option<String>,
    /// Close the command's stdin afterwards
    #[arg(long)]
    eof: bool,
    /// Do not end TEXT with a newline
    #[arg(short = 'n', long)]
    no_newline: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let data = input(args)?;
    let client = context.client().await?;
    let mut written = 0;
    let mut chunks: Vec<&[u8]> = data.chunks(CHUNK).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let last = chunks.len() - 1;
    for (index, chunk) in chunks.iter().enumerate() {
        let reply = client
            .call::<methods::ExecWrite>(&WriteParams {
                exec_id: args.exec.clone(),
                data: STANDARD.encode(chunk),
                encoding: Encoding::Base64,
                eof: args.eof && index == last,
                write_id: Some(write_id(index)),
                ..WriteParams::default()
            })
            .await?;
        written += reply.bytes;
        if context.output.json && index == last {
            context.output.json(&trl_protocol::exec::Written { bytes: written, ..reply })?;
        }
    }
    if !context.output.json && data.len() > CHUNK {
        crate::output::note(&format!("{} written", human::bytes(written)));
    }
    Ok(0)
}

fn input(args: &Args) -> Result<Vec<u8>> {
    match args.text.as_deref() {
        None => Ok(Vec::new()),
        Some("-") => {
            let mut data = Vec::new();
            std::io::stdin()
                .lock()
                .read_to_end(&mut data)
                .map_err(|error| Failure::system("reading stdin", error))?;
            Ok(data)
        }
        Some(text) if args.no_newline => Ok(text.as_bytes().to_vec()),
        Some(text) => Ok(format!("{text}\n").into_bytes()),
    }
}

/// Names one write, so that a repeat after a lost answer is applied once.
pub(crate) fn write_id(index: usize) -> String {
    static PREFIX: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let prefix = PREFIX.get_or_init(|| getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())));
    format!("w{prefix:016x}-{index}")
}
