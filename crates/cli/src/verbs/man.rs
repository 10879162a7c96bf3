//! `trl man`: manual pages from the same definitions as `--help`.

use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Write the manual pages into a directory
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Made if missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<u8> {
    let failed =
        |error: std::io::Error| Failure::system(&format!("writing to {}", args.dir.display()), error);
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(failed)?;
    output.line(format!("{}", args.dir.join("trl.1").display()))?;
    Ok(0)
}
