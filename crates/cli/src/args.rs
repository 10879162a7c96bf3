//! The command line as it is written: global flags and one verb.
//!
//! Each verb's own flags live in its file. What bare transport flags mean
//! (`trl --socket PATH` is `trl serve --socket PATH`) is decided here, before clap.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::config::{EnvFile, Flags, Key};
use crate::verbs::{
    agent, agents, attach, cancel, completions, confine, contacts, cp, doctor, envelope, fork, hook, inbox,
    info, kill, logs, ls, man, mcp, ps, relay, rename, reply, restart, run, runtimes, screen, send,
    send_input, sent, serve, setup, sh, shutdown, swerex, top, version, wait, watch,
};

/// Shells that keep their state.
///
/// A daemon owns living shells, called sessions. `trl run` runs a command in one: variables,
/// functions and the working directory carry over to the next command. The daemon is started
/// on first use.
#[derive(Debug, Parser)]
#[command(
    name = "trl",
    version,
    arg_required_else_help = true,
    after_help = "Bare transport flags start a daemon in the foreground, as `trl serve` does:\n  \
                  trl --socket PATH    trl --stdin    trl --http ADDR    or several at once"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The daemon's Unix socket [env: TRL_SOCKET_PATH]
    #[arg(long, alias = "socket-path", global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// One directory for everything: `run`, `state` and `config` below it [env: TRL_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Directory of sockets
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    pub(crate) runtime_dir: Option<PathBuf>,
    /// Directory of stored output and logs
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    pub(crate) state_dir: Option<PathBuf>,
    /// The config file
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub(crate) config: Option<PathBuf>,
    /// Fail if no daemon runs, instead of starting one
    #[arg(long, global = true)]
    pub(crate) no_start: bool,
    /// Print results and errors as JSON on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Global {
    pub(crate) fn flags(&self) -> Flags {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut settings = Vec::new();
        if let Some(socket) = &self.socket {
            settings.push((Key::SocketPath, "--socket", text(socket)));
        }
        if let Some(home) = &self.home {
            settings.push((Key::Home, "--home", text(home)));
        }
        Flags {
            settings,
            runtime_dir: self.runtime_dir.clone(),
            state_dir: self.state_dir.clone(),
            config_file: self.config.clone(),
            env_file: EnvFile::Unread,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(run::Args),
    Sh(sh::Args),
    Ls(ls::Args),
    Info(info::Args),
    Kill(kill::Args),
    Fork(fork::Args),
    Rename(rename::Args),
    Ps(ps::Args),
    Wait(wait::Args),
    Logs(logs::Args),
    Cancel(cancel::Args),
    SendInput(send_input::Args),
    Cp(cp::Args),
    Runtimes(runtimes::Args),
    Attach(attach::Args),
    Watch(watch::Args),
    Screen(screen::Args),
    Top(top::Args),
    Agent(agent::Args),
    Agents(agents::Args),
    Send(send::Args),
    Sent(sent::Args),
    Inbox(inbox::Args),
    Reply(reply::Args),
    Contacts(contacts::Args),
    Relay(relay::Args),
    Envelope(envelope::Args),
    Mcp(mcp::Args),
    Setup(setup::Args),
    Swerex(swerex::Args),
    Serve(Box<serve::Args>),
    Shutdown(shutdown::Args),
    Restart(restart::Args),
    Version(version::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
    /// One session's host; its socket is on stdin. Started by the daemon.
    #[command(hide = true)]
    Host,
    #[command(hide = true)]
    Hook(hook::Args),
    #[command(hide = true)]
    Confine(confine::Args),
}

const TRANSPORT_FLAGS: &[&str] = &["--socket", "--socket-path", "--stdin", "--http"];

/// Reads what was typed. If that fails, with the words as they were understood.
pub(crate) fn read(args: Vec<OsString>) -> Result<Cli, (Vec<OsString>, clap::Error)> {
    if let Some(cli) = read_frequent(&args) {
        return Ok(cli);
    }
    let mut command = Cli::command();
    let args = implied(args, &command);
    let matches = command.try_get_matches_from_mut(&args);
    let cli = matches.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    cli.map_err(|error| (args, error.format(&mut command)))
}

/// The definitions of all verbs take a good part of the time of a short command, so these two, which harnesses call
/// all day, are read without the others. What cannot be read that way is left to the whole.
fn read_frequent(args: &[OsString]) -> Option<Cli> {
    match args.get(1)?.to_str()? {
        "run" => read_as(args, "run", Verb::Run),
        "hook" => read_as(args, "hook", Verb::Hook),
        _ => None,
    }
}

fn read_as<A: Args>(args: &[OsString], name: &'static str, verb: fn(A) -> Verb) -> Option<Cli> {
    let own = A::augment_args(Command::new(name));
    let command = Global::augment_args(Command::new("trl")).subcommand(own);
    let mut matches = command.try_get_matches_from(args).ok()?;
    let (_, mut of_verb) = matches.remove_subcommand()?;
    let verb = verb(A::from_arg_matches_mut(&mut of_verb).ok()?);
    Some(Cli { global: Global::from_arg_matches(&matches).ok()?, verb: Some(verb) })
}

/// What was typed, with what it implies written out.
fn implied(args: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let args = with_implied_serve(args, command);
    if verb(args.get(1..).unwrap_or_default(), command).as_deref() == Some("send") {
        return send::with_default_wait(args);
    }
    args
}

/// Puts `serve` in where bare transport flags mean it.
fn with_implied_serve(mut args: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let is_transport = |arg: &OsStr| {
        let name = arg.to_str().map(|arg| arg.split_once('=').map_or(arg, |(name, _)| name));
        name.is_some_and(|name| TRANSPORT_FLAGS.contains(&name))
    };
    let given = args.get(1..).unwrap_or_default();
    if given.iter().any(|arg| is_transport(arg)) && verb(given, command).is_none() {
        args.insert(1, OsString::from("serve"));
    }
    args
}

/// The first word that is a verb, or asks for help.
fn verb(args: &[OsString], command: &Command) -> Option<String> {
    let verbs: Vec<&str> = command
        .get_subcommands()
        .flat_map(|verb| std::iter::once(verb.get_name()).chain(verb.get_all_aliases()))
        .chain(["help", "-h", "--help", "-V", "--version"])
        .collect();
    args.iter().find_map(|arg| verbs.iter().find(|verb| arg == **verb)).map(|verb| (*verb).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_out(line: &str) -> String {
        let args = implied(line.split(' ').map(OsString::from).collect(), &Cli::command());
        args.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn bare_transport_flags_mean_serve_and_nothing_else_does() {
        for (given, expected) in [
            ("trl --socket /x", "trl serve --socket /x"),
            ("trl --socket-path=/x", "trl serve --socket-path=/x"),
            ("trl --stdin", "trl serve --stdin"),
            ("trl --http :80 --stdin --max-sessions 3", "trl serve --http :80 --stdin --max-sessions 3"),
            ("trl --socket /x ls", "trl --socket /x ls"),
            ("trl --socket /x list", "trl --socket /x list"),
            ("trl run --stdin cat", "trl run --stdin cat"),
            ("trl serve --stdin", "trl serve --stdin"),
            ("trl --json", "trl --json"),
            ("trl --socket /x --help", "trl --socket /x --help"),
            ("trl", "trl"),
            ("trl --json send bob hi --wait", "trl --json send bob hi --wait=60"),
            ("trl run echo send --wait", "trl run echo send --wait"),
        ] {
            assert_eq!(written_out(given), expected);
        }
    }

    /// Reading one verb alone gives what reading it among all gives.
    #[test]
    fn frequent_verbs_are_read_as_among_all_the_others() {
        let all = |args: &[OsString]| Cli::try_parse_from(args).map(|cli| format!("{cli:?}")).ok();
        for (line, is_read) in [
            ("trl run :", true),
            ("trl run -s x --json --socket /s -- echo --home y", true),
            ("trl run --home /h --timeout 3 make -j8", true),
            ("trl run --no-start --isolation strict ls", true),
            ("trl hook stop", true),
            ("trl run", false),
            ("trl run --help", false),
            ("trl run --nonsense", false),
            ("trl hook nobody", false),
            ("trl ls", false),
            ("trl --json run :", false),
        ] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let read = read_frequent(&args).map(|cli| format!("{cli:?}"));
            assert_eq!(read.is_some(), is_read, "{line}");
            assert!(read.is_none() || read == all(&args), "{line}: {read:?}");
        }
    }

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn both_spellings_of_the_socket_are_one() {
        let socket = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap().global.socket;
        assert_eq!(socket("trl --socket-path /x ls"), Some("/x".into()));
        assert_eq!(socket("trl ls --socket /x"), Some("/x".into()));
    }
}
