//! `run`: a command in a living shell, or beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;
use trl_client::{Event, HeadTail, Step};
use trl_protocol::exec::{AttachParams, CancelParams, Encoding, ExecParams, RunParams};
use trl_protocol::limits::{MAX_SECONDS, MAX_TERMINAL_SIDE};
use trl_protocol::session::SessionParams;
use trl_protocol::{Code, ExecId, Fault};

use crate::fault;
use crate::follow::{Heard, Until, follow};
use crate::guest::{CalledSession, Guest, is_over};
use crate::report::{Facts, Progress, Report};
use crate::toolbox::{Call, Hints, Spec};

/// How long a call takes at most unless it says so: clients give up on calls after a minute.
const SOFT_S: f64 = 30.0;
/// How long a command in the background is heard before its start counts as done.
const BACKGROUND_S: f64 = 1.0;
/// Of each stream.
pub(crate) const MAX_OUTPUT: usize = 16_000;
/// Most of each stream that a call may ask for: a result must fit into one event of a client's.
pub(crate) const MOST_OUTPUT: usize = 200_000;
/// Most commands are over by then, and nobody needs to know whether they had to wait.
const FIRST_LOOK: Duration = Duration::from_millis(300);
/// Between the end of one command and the start of the next.
const A_MOMENT: Duration = Duration::from_millis(20);

pub(crate) struct Run;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Shell command or script; several lines are fine
    command: String,
    /// Name of a session to share or separate work; made on first use. Default: your own
    #[serde(default)]
    session: Option<String>,
    /// Where a new session runs: container:IMAGE, ssh:HOST, a configured name, label:NAME or any. Default: here
    #[serde(default)]
    runtime: Option<String>,
    /// Run beside the shell and return at once, for servers and watchers. It sees the shell's cwd and environment but cannot change them
    #[serde(default)]
    background: bool,
    /// Return after this long even if it still runs; it goes on. Default 30, in the background 1
    #[serde(default)]
    wait_s: Option<f64>,
    /// End it after this long. Default: never
    #[serde(default)]
    timeout_s: Option<f64>,
    /// Text for its stdin
    #[serde(default)]
    stdin: Option<String>,
    /// Run on a terminal, so that `input` can answer it
    #[serde(default)]
    interactive: bool,
    /// Width of its terminal. Default 120
    #[serde(default)]
    #[schemars(range(max = MAX_TERMINAL_SIDE))]
    cols: Option<u16>,
    /// Height of its terminal. Default 40
    #[serde(default)]
    #[schemars(range(max = MAX_TERMINAL_SIDE))]
    rows: Option<u16>,
    /// For this command only
    #[serde(default)]
    cwd: Option<String>,
    /// For this command only
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    /// Bytes shown of each stream, head and tail. Default 16000
    #[serde(default)]
    max_output: Option<usize>,
    /// Keep escape sequences
    #[serde(default)]
    ansi: bool,
    /// Let it run on when you disconnect
    #[serde(default)]
    keep: bool,
}

impl Spec for Run {
    const NAME: &'static str = "run";
    const ABOUT: &'static str = "Run a command in a persistent shell. Working directory, variables, functions and \
        options carry over to the next call. Returns stdout and stderr apart, exit code and cwd. A command that \
        takes long comes back as still running with an exec_id: go on with wait, output, input or cancel. \
        A non-zero exit code is a normal result.";
    const HINTS: Hints = Hints::Destroys { idempotent: false };
    const OPEN_WORLD: bool = true;
    type Args = Args;
    type Answer = Report;

    async fn call(args: Args, call: Call) -> Result<(String, Report), Fault> {
        let mut place = match args.runtime.as_deref().filter(|runtime| !runtime.is_empty()) {
            Some(runtime) => call.guest.place_in(runtime, args.session.as_deref()).await?,
            None => call.guest.place(args.session.as_deref()).await?,
        };
        let heard = match hear(&args, &place, &call).await {
            // Its own session ended since; its commands go to a new one.
            Err(fault) if place.own && is_over(&fault) => {
                call.guest.forget_own(place.id).await;
                let ended = place.name;
                place = call.guest.place(None).await?;
                place.note = Some(format!(
                    "session {ended} is over; this is a new one, without its variables and working directory"
                ));
                hear(&args, &place, &call).await?
            }
            Err(fault) if fault.code == Code::SessionBusy => {
                return Err(busy(&call.guest, &place, fault).await);
            }
            heard => heard?,
        };
        let Heard { exec_id, progress, streams } = heard;
        if matches!(progress, Progress::Finished(_)) {
            call.guest.forget_exec(exec_id);
        }
        call.guest.readings.started(exec_id, [streams[0].end(), streams[1].end()]);
        let told = Facts {
            session: place.name,
            exec_id,
            progress,
            streams,
            ansi: args.ansi,
            matched: None,
            notes: place.note.into_iter().collect(),
        }
        .told();
        Ok((told.text, told.report))
    }
}

async fn hear(args: &Args, place: &CalledSession, call: &Call) -> Result<Heard, Fault> {
    let guest = &call.guest;
    if args.keep {
        guest.keep(place).await?;
    }
    let soft = seconds("wait_s", args.wait_s.unwrap_or(if args.background { BACKGROUND_S } else { SOFT_S }))?;
    let limit = args.max_output.unwrap_or(MAX_OUTPUT).min(MOST_OUTPUT);
    if args.interactive {
        guest.size_terminal(place, (args.rows, args.cols)).await?;
    }
    let timeout = seconds("timeout_s", args.timeout_s.unwrap_or(0.0))?;
    let params = params(args, place, soft, timeout);
    let until = Until { soft, quiet: None, ends_command: true };
    let streams = [HeadTail::new(0, limit), HeadTail::new(0, limit)];
    let (started, own) = watch::channel(None);
    let heard = async {
        let stream = guest.client.stream(&params).await.map_err(fault::of)?;
        let started = |exec_id| {
            started.send_replace(Some(exec_id));
            if !args.keep && !guest.ends_with_client(place.id) {
                bind(Arc::clone(guest), exec_id);
            }
        };
        follow(&guest.client, stream, streams, until, (&call.teller, &call.ct), started).await
    };
    if args.background {
        return heard.await;
    }
    let (running, prompt) = tokio::select! {
        heard = heard => return heard,
        blocked = blocked(guest, place, own.clone()) => blocked,
    };
    let ours = own.borrow().map(|exec_id: ExecId| exec_id.to_string());
    let drop_it = CancelParams { session_id: None, exec_id: ours, signal: None };
    if let Err(error) = guest.client.exec_cancel(&drop_it).await {
        tracing::debug!(%error, "a queued command was not dropped");
    }
    Err(busy_with(place, running, Some(&prompt)))
}

/// Resolves when this command waits for one that waits for input: nobody will answer that one while
/// the client waits for this.
async fn blocked(
    guest: &Guest,
    place: &CalledSession,
    mut own: watch::Receiver<Option<ExecId>>,
) -> (ExecId, String) {
    tokio::time::sleep(FIRST_LOOK).await;
    let Some(ours) = own.wait_for(Option::is_some).await.ok().and_then(|ours| *ours) else {
        return std::future::pending().await;
    };
    loop {
        match guest.running(place.id).await {
            Some(running) if running == ours => return std::future::pending().await,
            Some(running) => {
                if let Some(prompt) = asks(guest, running).await {
                    return (running, prompt);
                }
            }
            None => tokio::time::sleep(A_MOMENT).await,
        }
    }
}

/// Waits until a command asks for input, or has ended.
async fn asks(guest: &Guest, exec: ExecId) -> Option<String> {
    let about = ExecParams { exec_id: exec.to_string() };
    let info = guest.client.exec_info(&about).await.ok()?;
    let from_here = AttachParams {
        exec_id: about.exec_id,
        stdout_offset: info.stdout_bytes,
        stderr_offset: info.stderr_bytes,
        encoding: Encoding::Base64,
    };
    let mut stream = guest.client.attach(&from_here).await.ok()?;
    // What it asked before we listened is no event any more.
    if let Some(prompt) = guest.asks_for_input(exec).await {
        return Some(prompt);
    }
    loop {
        match stream.next().await.ok()? {
            Step::Event(Event::Waiting { prompt, .. }) => return Some(prompt),
            Step::Event(_) => {}
            Step::Done(_) => return None,
        }
    }
}

/// Says what is in the way, and what a model can do about it.
async fn busy(guest: &Guest, place: &CalledSession, fault: Fault) -> Fault {
    let info = guest.client.session_info(&SessionParams { session_id: place.id.to_string() }).await;
    match info.ok().and_then(|info| info.running) {
        Some(running) => busy_with(place, running, guest.asks_for_input(running).await.as_deref()),
        None => fault,
    }
}

fn busy_with(place: &CalledSession, running: ExecId, prompt: Option<&str>) -> Fault {
    let what = match prompt {
        Some(prompt) => {
            format!("which waits for input ({prompt:?}), so this command did not run; answer it with input")
        }
        None => "so this command did not run; see its output".to_owned(),
    };
    Fault::new(
        Code::SessionBusy,
        format!(
            "session {} is busy with {running}, {what}, cancel it, or use background=true or another session",
            place.name
        ),
    )
    .with_details(serde_json::json!({ "running": running }))
}

/// Beside the command, which has begun already: nothing waits for this.
fn bind(guest: Arc<Guest>, exec_id: ExecId) {
    tokio::spawn(async move { guest.bind_exec(exec_id).await });
}

fn params(args: &Args, place: &CalledSession, soft: Duration, timeout: Duration) -> RunParams {
    RunParams {
        session_id: Some(place.id.to_string()),
        command: Some(args.command.clone()),
        timeout_s: Some(timeout.as_secs_f64()),
        stdin: args.stdin.clone(),
        stdin_open: Some(args.interactive),
        env: args.env.clone(),
        working_dir: args.cwd.clone(),
        tty: args.interactive.then_some(true),
        // As a person would see it: on one terminal, in order.
        merge_stderr: args.interactive.then_some(true),
        // A busy session is told while the call still has time to tell it.
        wait_s: Some(soft.as_secs_f64() / 2.0),
        background: Some(args.background),
        encoding: Encoding::Base64,
        ..RunParams::default()
    }
}

pub(crate) fn seconds(name: &str, value: f64) -> Result<Duration, Fault> {
    if (0.0..=MAX_SECONDS).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    let shown = if value.abs() > MAX_SECONDS { format!("{value:e}") } else { value.to_string() };
    Err(Fault::invalid(format!("`{name}` is {shown}; give 0 to {MAX_SECONDS} seconds")))
}
