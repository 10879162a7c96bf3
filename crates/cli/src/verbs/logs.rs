//! `trl logs`: the kept output of a command.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use trl_client::{Client, Event, Step};
use trl_protocol::exec::{AttachParams, Encoding, ListParams, OutputParams, OutputReply, Stream};
use trl_protocol::{ExecId, methods};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::human;
use crate::output::{self, Streams};
use crate::verbs::run::{Done, Lines, Sink as _, gap};

/// Show the output of a command, running or finished
///
/// stdout and stderr come on their own descriptors, unless one alone is asked for: then
/// it comes on stdout.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command's id, or a session for its last command
    #[arg(value_name = "COMMAND_ID|SESSION")]
    target: String,
    /// Only its stdout
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only its stderr, on our stdout
    #[arg(long)]
    stderr: bool,
    /// Continue until the command ends
    #[arg(short, long)]
    follow: bool,
    /// Begin at this byte of each stream
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    offset: u64,
}

impl Args {
    fn streams(&self) -> &'static [Stream] {
        match (self.stdout, self.stderr) {
            (true, _) => &[Stream::Stdout],
            (_, true) => &[Stream::Stderr],
            (false, false) => &Stream::BOTH,
        }
    }

    /// The descriptor of ours that a stream of the command goes to.
    fn goes_to(&self, stream: Stream) -> Stream {
        if self.stderr { Stream::Stdout } else { stream }
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let exec = find(&client, &args.target).await?;
    if args.follow {
        follow(args, context, &client, exec).await?;
    } else if context.output.json {
        let mut answer = json!({ "exec_id": exec });
        for stream in args.streams() {
            let range = range(&client, exec, *stream, args.offset, Encoding::Utf8).await?;
            answer[stream.name()] = json!(range);
        }
        context.output.json(&answer)?;
    } else {
        print(args, &client, exec).await?;
    }
    Ok(0)
}

async fn find(client: &Client, named: &str) -> Result<ExecId> {
    if let Ok(exec) = named.parse() {
        return Ok(exec);
    }
    let list = client
        .call::<methods::ExecList>(&ListParams { session_id: Some(named.to_owned()), own: false })
        .await?;
    let last = list.execs.last().map(|exec| exec.exec_id);
    last.ok_or_else(|| {
        Failure::unavailable(format!("session {named} has run no command whose output is kept"))
    })
}

async fn range(
    client: &Client,
    exec: ExecId,
    stream: Stream,
    offset: u64,
    encoding: Encoding,
) -> Result<OutputReply> {
    let params = OutputParams { exec_id: exec.to_string(), stream, offset, limit: None, encoding };
    Ok(client.call::<methods::ExecOutput>(&params).await?)
}

/// What is kept now, stream after stream.
async fn print(args: &Args, client: &Client, exec: ExecId) -> Result<()> {
    let mut ours = Streams::new();
    for stream in args.streams() {
        let mut position = args.offset;
        loop {
            let range = range(client, exec, *stream, position, Encoding::Base64).await?;
            if range.offset > position {
                gap(*stream, position, range.offset);
            }
            let bytes = STANDARD
                .decode(range.base64.unwrap_or_default())
                .map_err(|error| Failure::system("reading the daemon's answer", error))?;
            ours.write(args.goes_to(*stream), &bytes).await?;
            position = range.next_offset;
            if bytes.is_empty() || position >= range.total_bytes {
                break;
            }
        }
    }
    Ok(())
}

/// Everything, then what comes, until the command ends. Ctrl-C leaves; the command goes on.
async fn follow(args: &Args, context: &Context, client: &Client, exec: ExecId) -> Result<()> {
    let params = AttachParams {
        exec_id: exec.to_string(),
        stdout_offset: args.offset,
        stderr_offset: args.offset,
        encoding: Encoding::Base64,
    };
    let mut stream = client.attach(&params).await?;
    let mut ours = Streams::new();
    loop {
        let event = match stream.next().await? {
            Step::Event(event) => event,
            Step::Done(reply) if context.output.json => {
                return context.output.json(&Done { ok: true, data: &reply });
            }
            Step::Done(reply) => {
                let took = human::duration(reply.outcome.duration_us as f64 / 1e6);
                let code = reply.outcome.exit_code.map_or("unknown".to_owned(), |code| code.to_string());
                output::note(&format!("{exec} ended after {took}, exit code {code}"));
                return Ok(());
            }
        };
        match event {
            Event::Output { stream, .. } | Event::Gap { stream, .. } if !args.streams().contains(&stream) => {
            }
            event if context.output.json => Lines(context.output).take(event).await?,
            Event::Output { stream, bytes, .. } => ours.write(args.goes_to(stream), &bytes).await?,
            Event::Gap { stream, from, to } => gap(stream, from, to),
            Event::Waiting { prompt, .. } => {
                output::note(&format!("the command waits for input: {}", prompt.trim()));
            }
            Event::Started { .. } | Event::Queued { .. } => {}
        }
    }
}
