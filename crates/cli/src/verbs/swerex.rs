//! `trl swerex`: the HTTP API of SWE-ReX's remote runtime.

use tokio::net::TcpListener;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::verbs::serve;
use crate::{output, target};

/// Serve the HTTP API of SWE-ReX, for SWE-agent and mini-swe-agent
///
/// Programs that use SWE-ReX's remote runtime run their commands in sessions of the daemon. The sessions
/// have the environment and the directory of this command, and end with it. docs/swerex.md tells more.
#[derive(Debug, clap::Args)]
#[command(version)]
pub(crate) struct Args {
    /// What clients must send as `X-API-Key`
    #[arg(long, value_name = "TOKEN")]
    auth_token: String,
    /// Address to listen on
    #[arg(long, value_name = "HOST", default_value = "0.0.0.0")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    serve::secrets::forbid_inspection();
    serve::secrets::overwrite_flag("--auth-token");
    if args.auth_token.is_empty() {
        return Err(Failure::usage("--auth-token is empty: anybody could run commands"));
    }
    let listener = TcpListener::bind((args.host.as_str(), args.port))
        .await
        .map_err(|error| Failure::unavailable(format!("{}:{}: {error}", args.host, args.port)))?;
    let address = listener.local_addr().map_err(|error| Failure::unavailable(error.to_string()))?;
    let client = context.client().await?;
    output::note(&format!("SWE-ReX's API is served at http://{address}"));
    let settings = trl_swerex::Settings {
        auth_token: args.auth_token.clone(),
        session: target::creation(None, &target::Making::default()),
    };
    let served = trl_swerex::serve(listener, client, settings, Box::pin(serve::told_to_end())).await;
    served.map_err(|error| Failure::unavailable(error.to_string()))?;
    Ok(0)
}
