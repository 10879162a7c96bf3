//! `trl run`: a command in a session, as if it ran here.
//!
//! Its output comes live and byte-exact on our own descriptors, our stdin goes to it,
//! Ctrl-C ends it, and its exit code is ours.

mod collect;
mod events;
mod interrupt;
mod live;
mod stdin;

use std::collections::BTreeMap;

use trl_client::Client;
use trl_protocol::exec::{Encoding, Outcome, RunParams, RunReply, StreamReply};
use trl_protocol::ids::is_env_name;
use trl_protocol::isolation::Isolation;
use trl_protocol::limits::MAX_SECONDS;
use trl_protocol::session::{DestroyParams, SessionLimits};
use trl_protocol::{Code, Fault, SessionId, methods};

use crate::config::{parse_bytes, parse_isolation, parse_seconds};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::{human, output, quote, target};

pub(crate) use events::Lines;
pub(crate) use live::{Sink, Through, follow, gap};

/// Exit statuses where the command has none to give.
pub(crate) const TIMED_OUT: u8 = 124;
pub(crate) const UNKNOWN: u8 = 125;
/// Cancelled before it ran: as a shell has it of Ctrl-C.
const NEVER_RAN: u8 = 130;

/// Run a command in a session
///
/// One COMMAND argument is shell text: `trl run 'cd src && ls *.rs'`. Several are words
/// that reach the command as they are: `trl run grep -r 'two words' .`
///
/// Variables, functions and the working directory carry over to the next command of the
/// same session. A session with a name is made on first use, in the current directory and
/// with the current environment. The exit status is the command's; 124 on timeout,
/// 125 if it is unknown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, by name or id; a new name creates a session
    #[arg(short, long, value_name = "NAME", default_value = target::DEFAULT)]
    session: String,
    /// Use a new session, which is ended afterwards
    #[arg(long, conflicts_with_all = ["session", "detach"])]
    new: bool,
    /// Shell of a new session: bash, zsh, sh or dash, or a path
    #[arg(long)]
    shell: Option<String>,
    /// Where a new session runs: a runtime's name, `container:IMAGE`, `ssh:HOST`, `label:NAME` or `any`;
    /// without -s it is one for that runtime
    #[arg(long, value_name = "RUNTIME")]
    on: Option<String>,
    /// Isolation of a new session: `none`, `workspace`, `strict`, or JSON with details
    #[arg(long, value_name = "PROFILE", value_parser = isolation)]
    isolation: Option<Isolation>,
    /// Limits of a new session, for all its processes together: `memory=512M`, `pids=200`, `cpu=1.5`,
    /// `open_files`, `file_size`, `cpu_time_s`, `disk`; may be given more than once
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    limits: Vec<(String, serde_json::Value)>,
    /// A variable for this command only; may be given more than once
    #[arg(short, long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// The working directory for this command only
    #[arg(short = 'C', long, value_name = "DIR")]
    dir: Option<String>,
    /// End it after this time: `90`, `1.5`, `10m`; 0 is never [default: the session's]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
    /// How long to wait for a session that is busy [default: as long as it takes]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<f64>,
    /// Fail immediately if the session is busy
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// Report an exit code other than 0 as an error
    #[arg(long)]
    check: bool,
    /// Start it in the background, print its id, and leave it running
    #[arg(short, long, visible_alias = "background")]
    detach: bool,
    /// Print every event as a line of JSON, then the result
    #[arg(long, conflicts_with_all = ["json", "detach"])]
    json_stream: bool,
    /// Forward stdin even if it is a terminal; a pipe or file is always forwarded
    #[arg(short = 'i', long, conflicts_with_all = ["no_stdin", "detach"])]
    stdin: bool,
    /// Do not forward stdin: the command gets an empty one
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// With --json: how much of each stream to keep, head and tail
    #[arg(long, value_name = "BYTES", value_parser = size)]
    max_output: Option<u64>,
    /// Shell text, or a program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Args {
    fn making(&self) -> target::Making {
        let limits: serde_json::Map<String, serde_json::Value> = self.limits.iter().cloned().collect();
        target::Making {
            shell: self.shell.clone(),
            isolation: self.isolation.clone(),
            runtime: self.on.clone(),
            // Each was checked by itself when it was read.
            limits: (!limits.is_empty()).then(|| serde_json::from_value(limits.into()).unwrap_or_default()),
        }
    }
}

fn isolation(text: &str) -> std::result::Result<Isolation, String> {
    parse_isolation(text)
        .ok_or_else(|| "`none`, `workspace`, `strict` or JSON with `profile` is expected".to_owned())
}

pub(crate) fn limit(text: &str) -> std::result::Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::from(value));
    let alone = serde_json::json!({ name: value.clone() });
    serde_json::from_value::<SessionLimits>(alone).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}

fn variable(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if is_env_name(name) => Ok((name.to_owned(), value.to_owned())),
        Some((name, _)) => Err(format!("{name:?} is not the name of a variable")),
        None => Err("NAME=VALUE is expected".to_owned()),
    }
}

pub(crate) fn seconds(text: &str) -> std::result::Result<f64, String> {
    parse_seconds(text).ok_or_else(|| "seconds are expected: `90`, `1.5`, `10m`, `2h`".to_owned())
}

fn size(text: &str) -> std::result::Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "bytes are expected: `65536`, `512k`, `64M`".to_owned())
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    if args.new {
        let session = target::throw_away(&client, &args.making()).await?;
        let done = in_session(args, context, &client, session).await;
        let ended = client
            .call::<methods::SessionDestroy>(&DestroyParams { session_id: session.to_string(), force: true })
            .await;
        return done.and_then(|status| ended.map(|_| status).map_err(Failure::from));
    }
    let named = match &args.on {
        Some(runtime) if args.session == target::DEFAULT => target::name_on(runtime),
        _ => args.session.clone(),
    };
    let session = target::find_or_create(&client, &named, &args.making()).await?;
    if let Some(runtime) = args.on.as_deref().filter(|_| args.session != target::DEFAULT) {
        target::check_runtime(&client, &session, runtime).await?;
    }
    if let (Some(there), Some(reason)) = (&session.runtime, &session.runtime_reason) {
        output::note_to_person(&format!("session {named} was made in {there}: {reason}"));
    }
    if !args.detach {
        target::refuse_own_session(session.id)?;
        if let Some(exec) = session.running.filter(|_| !args.no_wait) {
            output::note_to_person(&format!("session {} is busy with {exec}; waiting for it", args.session));
        }
    }
    in_session(args, context, &client, session.id).await
}

async fn in_session(
    args: &Args,
    context: &Context,
    client: &std::sync::Arc<Client>,
    session: SessionId,
) -> Result<u8> {
    let mut params = params(args, session);
    if args.detach {
        let started = client.call::<methods::ExecStart>(&params).await?;
        if context.output.json {
            context.output.json(&started)?;
        } else {
            context.output.line(started.exec_id.to_string())?;
        }
        return Ok(0);
    }
    let input = stdin::choose(args.stdin, args.no_stdin);
    params.stdin_open = input.map(|_| true);
    if context.output.json {
        let limit = args.max_output.unwrap_or(context.settings.max_output_bytes);
        let mut collected = collect::Collected::new(limit);
        let reply = follow(client, &params, input, &mut collected).await?;
        let reply = collected.into_reply(reply);
        check(args, &reply.outcome, &reply)?;
        context.output.json(&reply)?;
        return Ok(status(&reply.outcome));
    }
    if args.json_stream {
        let mut lines = Lines(context.output);
        let reply = follow(client, &params, input, &mut lines).await?;
        context.output.json(&Done { ok: true, data: &reply })?;
        return Ok(status(&reply.outcome));
    }
    let reply = follow(client, &params, input, &mut Through::new()).await?;
    tell(&reply.outcome);
    check(args, &reply.outcome, &reply)?;
    Ok(status(&reply.outcome))
}

fn params(args: &Args, session: SessionId) -> RunParams {
    let env: BTreeMap<String, String> = args.env.iter().cloned().collect();
    RunParams {
        session_id: Some(session.to_string()),
        command: Some(quote::command_text(&args.command).into_owned()),
        timeout_s: args.timeout,
        env: if env.is_empty() { None } else { Some(env) },
        working_dir: args.dir.as_ref().map(|dir| absolute(dir)),
        wait_s: if args.no_wait { None } else { Some(args.wait.unwrap_or(MAX_SECONDS)) },
        encoding: Encoding::Base64,
        ..RunParams::default()
    }
}

/// A relative directory is meant from here, not from where the session is.
fn absolute(dir: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    here.join(dir).into_os_string().into_string().unwrap_or_else(|_| dir.to_owned())
}

/// The last line of a stream of JSON, as the wire has it.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Done<'a> {
    pub(crate) ok: bool,
    pub(crate) data: &'a StreamReply,
}

/// What the person should know that the output does not say.
pub(crate) fn tell(outcome: &Outcome) {
    for text in &outcome.notes {
        output::note(text);
    }
    if outcome.timed_out {
        let took = human::duration(outcome.duration_us as f64 / 1e6);
        output::note(&format!("the command timed out after {took}"));
        output::hint("--timeout gives it more time; 0 is no limit");
    }
    if let (None, Some(signal)) = (outcome.exit_code, &outcome.signal) {
        output::note(&format!("the command was ended by {signal}"));
    }
}

/// The exit status that stands for how a command ended.
pub(crate) fn status(outcome: &Outcome) -> u8 {
    if outcome.timed_out {
        return TIMED_OUT;
    }
    match outcome.exit_code {
        // Shells have no others; the cut is what `exit 256` does too.
        Some(code) => (code & 0xff) as u8,
        None if outcome.cancelled => NEVER_RAN,
        None => UNKNOWN,
    }
}

/// `--check`: the failure carries the whole result, and the command's own exit status.
fn check(args: &Args, outcome: &Outcome, reply: &impl serde::Serialize) -> Result<()> {
    let (code, message) = match outcome {
        _ if !args.check => return Ok(()),
        Outcome { timed_out: true, .. } => (Code::CommandTimeout, "the command timed out".to_owned()),
        Outcome { exit_code: Some(0), .. } => return Ok(()),
        Outcome { exit_code: Some(code), .. } => {
            (Code::CommandFailed, format!("the command ended with exit code {code}"))
        }
        Outcome { exit_code: None, .. } => {
            (Code::CommandFailed, "the exit status of the command is unknown".to_owned())
        }
    };
    let details = serde_json::to_value(reply).unwrap_or_default();
    let mut failure = Failure::from(Fault::new(code, message).with_details(details));
    failure.status = status(outcome);
    Err(failure)
}

/// The answer of `exec.run`, made of a stream's.
fn run_reply(streamed: StreamReply, [stdout, stderr]: [collect::Text; 2]) -> RunReply {
    RunReply {
        exec_id: streamed.exec_id,
        stdout: stdout.text,
        stderr: stderr.text,
        outcome: streamed.outcome,
        stdout_truncated: streamed.stdout_truncated || stdout.truncated,
        stderr_truncated: streamed.stderr_truncated || stderr.truncated,
        still_running: streamed.still_running,
        stdout_lossy: stdout.lossy,
        stderr_lossy: stderr.lossy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(line: &[&str]) -> std::result::Result<Args, String> {
        let words = ["trl", "run"].iter().chain(line);
        match <crate::args::Cli as clap::Parser>::try_parse_from(words) {
            Ok(crate::args::Cli { verb: Some(crate::args::Verb::Run(args)), .. }) => Ok(args),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn flags_end_where_the_command_begins() {
        let args = parsed(&["-s", "build", "ls", "-la", "--new"]).unwrap();
        assert_eq!((args.session.as_str(), args.new), ("build", false));
        assert_eq!(args.command, ["ls", "-la", "--new"]);
        assert_eq!(parsed(&["--", "-x"]).unwrap().command, ["-x"]);
        assert_eq!(parsed(&["true"]).unwrap().session, "default");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (line, expected) in [
            (&["--env", "1X=2", "true"][..], "not the name of a variable"),
            (&["--env", "X", "true"], "NAME=VALUE"),
            (&["--timeout", "soon", "true"], "seconds are expected"),
            (&["--new", "-s", "x", "true"], "cannot be used with"),
            (&["--wait", "1", "--no-wait", "true"], "cannot be used with"),
            (&[], "required"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(expected), "{line:?}: {error}");
        }
    }

    #[test]
    fn waiting_is_without_end_unless_said() {
        let wait = |line: &[&str]| params(&parsed(line).unwrap(), SessionId(1)).wait_s;
        assert_eq!(wait(&["true"]), Some(MAX_SECONDS));
        assert_eq!(wait(&["--wait", "2m", "true"]), Some(120.0));
        assert_eq!(wait(&["--no-wait", "true"]), None);
    }

    fn outcome(exit_code: Option<i32>, timed_out: bool) -> Outcome {
        Outcome {
            exit_code,
            signal: None,
            duration_ms: 1,
            duration_us: 1,
            timed_out,
            cancelled: false,
            stdout_bytes: 0,
            stderr_bytes: 0,
            working_dir: "/".into(),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_exit_status_is_the_commands() {
        for (code, timed_out, expected) in [
            (Some(0), false, 0),
            (Some(3), false, 3),
            (Some(130), false, 130),
            (Some(143), true, 124),
            (None, false, 125),
        ] {
            assert_eq!(status(&outcome(code, timed_out)), expected);
        }
    }

    #[test]
    fn check_fails_with_the_commands_status_and_result() {
        let args = parsed(&["--check", "false"]).unwrap();
        assert!(check(&args, &outcome(Some(0), false), &json!({})).is_ok());
        let failure = check(&args, &outcome(Some(3), false), &json!({"exit_code": 3})).unwrap_err();
        assert_eq!(failure.status, 3);
        assert_eq!(serde_json::to_value(failure.to_json()).unwrap()["error"]["details"]["exit_code"], 3);
        let failure = check(&args, &outcome(None, true), &json!({})).unwrap_err();
        assert_eq!(serde_json::to_value(failure.to_json()).unwrap()["error"]["code"], "COMMAND_TIMEOUT");
    }
}
