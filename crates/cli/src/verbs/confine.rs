//! `trl confine`: becomes an auto-responder's command, with no power but to answer.

use std::path::PathBuf;

use trl_confine::{Confinement, become_command};

use crate::failure::{Failure, Result};

/// Become a command that can reach nothing but its own directory; started by the daemon
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Let it use the network
    #[arg(long)]
    network: bool,
    /// The only directory it can write in
    dir: PathBuf,
    /// Program and arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<u8> {
    let Args { network, dir, command } = args;
    let error = become_command(&Confinement { dir, network, command });
    Err(Failure::unavailable(error.to_string()))
}
