//! `trl completions`: what a shell needs to complete our words.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Result;
use crate::output::Output;

/// Print the completions for a shell
///
/// For bash: `trl completions bash > ~/.local/share/bash-completion/completions/trl`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "trl", &mut script);
    output.bytes(&script)?;
    Ok(0)
}
