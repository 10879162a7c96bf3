//! `trl completions`: what a shell needs to complete our words.

use clap::{Command, CommandFactory as _};
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
    clap_complete::generate(args.shell, &mut offered(&Cli::command()), "trl", &mut script);
    output.bytes(&script)?;
    Ok(0)
}

/// What the help lists: verbs that only programs use are not offered.
fn offered(all: &Command) -> Command {
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new("trl").args(all.get_arguments()).subcommands(verbs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verbs_of_the_help_are_offered_and_no_others() {
        let all = Cli::command();
        let words = |shell: Shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut offered(&all), "trl", &mut script);
            String::from_utf8(script).unwrap()
        };
        let script = words(Shell::Bash);
        for verb in all.get_subcommands() {
            let name = verb.get_name();
            let is_offered = script.contains(&format!("trl,{name})"));
            assert_eq!(is_offered, !verb.is_hide_set(), "{name}");
        }
        assert!(script.contains("--json"), "flags of every verb");
    }
}
