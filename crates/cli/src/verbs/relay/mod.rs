//! `trl relay`: prepares and checks the broker between machines.
//!
//! The command line is the same in every build; without the feature `relay-nats` each action fails and says why.

#[cfg(feature = "relay-nats")]
mod check;
#[cfg(feature = "relay-nats")]
mod init;

use std::path::PathBuf;

use trl_mail::relay::broker::OpenRelay;

use crate::context::Context;
use crate::failure::Result;

/// How the daemon opens its relay between machines.
#[cfg(feature = "relay-nats")]
pub(crate) const OPEN: OpenRelay = trl_relay_nats::open;
#[cfg(not(feature = "relay-nats"))]
pub(crate) const OPEN: OpenRelay = trl_mail::relay::broker::not_in_this_build;

/// Prepare and check the broker (NATS JetStream) that carries mail between machines
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create keys, the broker's config, and the mailboxes; can be repeated
    ///
    /// Keys and config are made in a directory of this machine, which should be its
    /// administrator's. With a broker that runs with that config, mailboxes and the directory
    /// of public keys are made there and compared with what they must be.
    Init(Init),
    /// Test, as each agent of this daemon, what must work and what must be refused
    Check {
        /// Only this agent, by name
        agent: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Init {
    /// An agent to let in; `trl agent list` on its machine tells the address
    #[arg(long = "agent", value_name = "NAME=ADDRESS")]
    agents: Vec<String>,
    /// Where keys and config are kept [default: `relay` beside the config file]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The broker, `nats://HOST:4222` or `tls://HOST:4222`; without it only files are made
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Parcels that may wait in one mailbox [default: as it is; a new one 10000]
    #[arg(long, value_name = "COUNT")]
    mailbox_parcels: Option<i64>,
    /// Of these, from one sender [default: as it is; a new one 2000]
    #[arg(long, value_name = "COUNT")]
    sender_parcels: Option<i64>,
    /// Bytes that may wait in one mailbox, reserved on the broker's disk; -1 is no bound
    /// [default: as it is; a new one -1]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    mailbox_bytes: Option<i64>,
    /// Copies of everything, in a cluster [default: as it is; at first 1]
    #[arg(long, value_name = "COUNT")]
    replicas: Option<usize>,
}

#[cfg(feature = "relay-nats")]
pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.action {
        Action::Init(init) => init::run(init, context).await,
        Action::Check { agent } => check::run(agent.as_deref(), context).await,
    }
}

#[cfg(not(feature = "relay-nats"))]
pub(crate) async fn run(args: &Args, _context: &Context) -> Result<u8> {
    let action = match args.action {
        Action::Init(_) => "init",
        Action::Check { .. } => "check",
    };
    let why = trl_mail::relay::RelayError::NotInThisBuild;
    Err(crate::failure::Failure::unavailable(format!("trl relay {action}: {why}")))
}
