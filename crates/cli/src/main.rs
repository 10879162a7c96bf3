//! `trl`: parse, call, print. One file per verb in `verbs/`.

mod args;
mod config;
mod context;
#[cfg(test)]
mod docs_test;
mod failure;
mod frame;
mod harness;
mod human;
mod identity;
mod letter;
#[cfg(test)]
mod manual;
mod notices;
mod output;
mod quote;
mod raw_terminal;
mod reader_gone;
mod table;
mod target;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::args::{Cli, Verb};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::Output;

fn main() -> ExitCode {
    // A host starts with each session: it does not wait for the whole command line to be built.
    // With arguments it is the host program of a container or another machine.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "host") {
        return trl_host::far::main(std::env::args_os().skip(2));
    }
    let cli = match args::read(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err((args, error)) => return misread(&args, &error),
    };
    if let Some(Verb::Host) = cli.verb {
        return trl_host::run();
    }
    let output = Output::new(cli.global.json);
    match dispatch(cli, output) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// `--help` and `--version` are no errors; what is one follows `--json`.
fn misread(args: &[OsString], error: &clap::Error) -> ExitCode {
    let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked_for && args.iter().any(|arg| arg == "--json") {
        let text = error.render().to_string();
        let (problem, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
        let failure = Failure::usage(problem.trim_start_matches("error: ")).hint(rest.trim());
        Output::new(true).failure(&failure);
        return ExitCode::from(failure.status);
    }
    // A closed stdout is no reason to fail at showing help.
    let _ = error.print();
    if asked_for { ExitCode::SUCCESS } else { ExitCode::from(Failure::usage("").status) }
}

fn dispatch(cli: Cli, output: Output) -> Result<u8> {
    use verbs::*;
    let Some(verb) = cli.verb else {
        return Err(Failure::usage("nothing to do").hint("`trl --help` lists the commands"));
    };
    match verb {
        Verb::Completions(args) => completions::run(&args, output),
        Verb::Man(args) => man::run(&args, output),
        Verb::Envelope(args) => envelope::run(&args, output),
        Verb::Host => Err(Failure::usage("`trl host` is started by the daemon")),
        Verb::Confine(args) => confine::run(args),
        Verb::Serve(args) => serve::run(&args, &cli.global),
        Verb::Mcp(args) => mcp::run(&args, &Context::load(&cli.global, output)?),
        Verb::Sh(args) => sh::run(&args, &Context::load(&cli.global, output)?),
        Verb::Doctor(args) => doctor::run(&args, &cli.global, output),
        Verb::Hook(args) => hook::run(&args, &cli.global, output),
        Verb::Setup(args) => setup::run(&args, &Context::load(&cli.global, output)?),
        verb => {
            let context = Context::load(&cli.global, output)?;
            context::block_on(client_verb(verb, &context))?
        }
    }
}

/// Verbs that talk to the daemon, once.
async fn client_verb(verb: Verb, context: &Context) -> Result<u8> {
    use verbs::*;
    match verb {
        Verb::Run(args) => run::run(&args, context).await,
        Verb::Ls(args) => ls::run(&args, context).await,
        Verb::Info(args) => info::run(&args, context).await,
        Verb::Fork(args) => fork::run(args, context).await,
        Verb::Rename(args) => rename::run(args, context).await,
        Verb::Kill(args) => kill::run(&args, context).await,
        Verb::Ps(args) => ps::run(&args, context).await,
        Verb::Wait(args) => wait::run(&args, context).await,
        Verb::Logs(args) => logs::run(&args, context).await,
        Verb::Cancel(args) => cancel::run(&args, context).await,
        Verb::Attach(args) => attach::run(&args, context).await,
        Verb::Watch(args) => watch::run(&args, context).await,
        Verb::Screen(args) => screen::run(&args, context).await,
        Verb::Top(args) => top::run(&args, context).await,
        Verb::SendInput(args) => send_input::run(&args, context).await,
        Verb::Cp(args) => cp::run(&args, context).await,
        Verb::Runtimes(args) => runtimes::run(&args, context).await,
        Verb::Agent(args) => agent::run(&args, context).await,
        Verb::Agents(args) => agents::run(&args, context).await,
        Verb::Send(args) => send::run(&args, context).await,
        Verb::Sent(args) => sent::run(&args, context).await,
        Verb::Inbox(args) => inbox::run(&args, context).await,
        Verb::Reply(args) => reply::run(&args, context).await,
        Verb::Contacts(args) => contacts::run(&args, context).await,
        Verb::Relay(args) => relay::run(&args, context).await,
        Verb::Swerex(args) => swerex::run(&args, context).await,
        Verb::Shutdown(args) => shutdown::run(&args, context).await,
        Verb::Restart(args) => restart::run(&args, context).await,
        Verb::Version(args) => version::run(&args, context).await,
        Verb::Completions(_)
        | Verb::Man(_)
        | Verb::Envelope(_)
        | Verb::Host
        | Verb::Confine(_)
        | Verb::Mcp(_)
        | Verb::Serve(_)
        | Verb::Sh(_)
        | Verb::Setup(_)
        | Verb::Hook(_)
        | Verb::Doctor(_) => Err(Failure::usage("this verb has its own way")),
    }
}
