//! `trl version`: of this client and of the daemon that runs.

use serde_json::json;
use trl_protocol::methods;
use trl_protocol::system::NoParams;

use crate::context::Context;
use crate::failure::Result;
use crate::output;

pub(crate) const OURS: &str = env!("CARGO_PKG_VERSION");

/// Show the version of this client and of the running daemon
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: &Args, context: &Context) -> Result<u8> {
    let info = match context.running().await? {
        Some(client) => Some(client.call::<methods::SystemInfo>(&NoParams {}).await?),
        None => None,
    };
    let output = context.output;
    if output.json {
        let daemon = info.map(|info| {
            json!({ "version": info.version, "protocol_version": info.protocol_version, "pid": info.pid })
        });
        output.json(&json!({
            "client": { "version": OURS, "protocol_version": trl_protocol::PROTOCOL_VERSION },
            "daemon": daemon,
        }))?;
        return Ok(0);
    }
    output.line(format!("client  {OURS} (protocol {})", trl_protocol::PROTOCOL_VERSION))?;
    match info {
        None => output.line("daemon  not running")?,
        Some(info) => {
            output.line(format!(
                "daemon  {} (protocol {}, pid {})",
                info.version, info.protocol_version, info.pid
            ))?;
            if info.version != OURS {
                output::note("client and daemon differ; `trl restart` replaces the daemon, sessions stay");
            }
        }
    }
    Ok(0)
}
