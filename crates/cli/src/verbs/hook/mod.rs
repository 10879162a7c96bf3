//! `trl hook`: what a harness runs at certain moments, with JSON on stdin and stdout.
//!
//! A hook is never in the way. It starts no daemon. Without one, without an agent, or when anything goes wrong,
//! it says nothing and succeeds. Mail is mentioned by number, never by what it says.

mod wait;

use std::io::IsTerminal as _;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::Deserialize as _;
use serde_json::{Value, json};
use trl_client::Client;
use trl_protocol::agent::ReleaseParams;
use trl_protocol::exec::{ExecState, ListParams};
use trl_protocol::mail::{Notices, NoticesParams};
use trl_protocol::{methods, quote};

use crate::args::Global;
use crate::context::{self, Context};
use crate::failure::Result;
use crate::identity;
use crate::output::Output;
use crate::{harness, notices};

/// A daemon that does not answer within this is not waited for: the harness and its user wait for the hook.
const PATIENCE: Duration = Duration::from_secs(1);
/// Commands that are named at the start of a session.
const NAMED_COMMANDS: usize = 5;
const LONGEST_COMMAND: usize = 60;

/// Run by a harness at certain moments: docs/agents.md
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What has happened, or `wait`
    #[arg(value_enum)]
    event: Event,
    /// With `wait`: how long the daemon may be away before the waiter ends
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    patience: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Event {
    /// Report the agent, running commands and unread messages
    #[value(alias = "SessionStart")]
    SessionStart,
    /// Mention new mail
    #[value(alias = "UserPromptSubmit")]
    UserPromptSubmit,
    /// Mention mail that came during the turn, which then goes on
    #[value(alias = "Stop")]
    Stop,
    /// Release the label of the session
    #[value(alias = "SessionEnd")]
    SessionEnd,
    /// Wait for mail and wake the session: exits with 2 when there is some
    Wait,
}

/// What the harness says on stdin.
#[derive(Debug, Default)]
struct Said {
    session_id: Option<String>,
    project: Option<String>,
    /// The turn goes on because a hook asked for it.
    stop_hook_active: bool,
    /// Why a session ends.
    reason: Option<String>,
}

impl Said {
    /// One JSON value: whether the harness closes its end is its own affair.
    fn read() -> Said {
        let stdin = std::io::stdin();
        let said = match stdin.is_terminal() || !is_readable_soon(&stdin) {
            true => Value::Null,
            false => Value::deserialize(&mut serde_json::Deserializer::from_reader(stdin.lock()))
                .unwrap_or_default(),
        };
        let field = |name: &str| said[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Said {
            session_id: field("session_id").filter(|id| id.len() <= 256).or_else(harness::session_id),
            project: harness::project().or_else(|| field("cwd")),
            stop_hook_active: said["stop_hook_active"] == true,
            reason: field("reason"),
        }
    }
}

/// A harness that says nothing must not wait for a hook that waits for it.
fn is_readable_soon(stdin: &std::io::Stdin) -> bool {
    let mut polled = [PollFd::new(stdin, PollFlags::IN)];
    let longest = Timespec { tv_sec: 1, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&longest)).is_ok_and(|ready| ready > 0)
}

pub(crate) fn run(args: &Args, global: &Global, output: Output) -> Result<u8> {
    // Settings that cannot be read are reported by everything else.
    let Ok(context) = Context::load(global, output) else { return Ok(0) };
    let said = Said::read();
    let Some(session_id) = said.session_id.clone() else { return Ok(0) };
    let hook = Hook { session_id, said, has_mail: context.may_have_mail() };
    if args.event == Event::Wait {
        return match hook.has_mail {
            true => {
                let absence = Duration::try_from_secs_f64(args.patience).unwrap_or(Duration::MAX);
                context::block_on(wait::run(&hook, absence, &context))?
            }
            false => Ok(0),
        };
    }
    if !hook.has_mail && args.event != Event::SessionStart {
        return Ok(0);
    }
    let answer = context::block_on(async {
        let answered = async {
            let client = context.running().await.ok().flatten()?;
            hook.answer(args.event, &client).await
        };
        tokio::time::timeout(PATIENCE, answered).await.ok().flatten()
    })?;
    if let Some(answer) = answer {
        context.output.json(&answer)?;
    }
    Ok(0)
}

struct Hook {
    session_id: String,
    said: Said,
    has_mail: bool,
}

impl Hook {
    async fn answer(&self, event: Event, client: &Client) -> Option<Value> {
        match event {
            Event::SessionStart => self.session_start(client).await,
            Event::UserPromptSubmit => self.user_prompt_submit(client).await,
            Event::Stop => self.stop(client).await,
            Event::SessionEnd => self.session_end(client).await,
            Event::Wait => None,
        }
    }

    fn notices(&self) -> NoticesParams {
        NoticesParams {
            harness_session_id: Some(self.session_id.clone()),
            harness_pids: harness::pids(),
            agent: identity::told(identity::AGENT),
            project: self.said.project.clone(),
            ..NoticesParams::default()
        }
    }

    async fn session_start(&self, client: &Client) -> Option<Value> {
        let found = match self.has_mail {
            // They are mentioned here, and so by nobody else.
            true => {
                let params = NoticesParams { claim: true, ..self.notices() };
                client.call::<methods::MailNotices>(&params).await.unwrap_or_default()
            }
            false => Notices::default(),
        };
        let mut parts = Vec::new();
        match (&found.agent, &found.label) {
            (Some(agent), Some(label)) => {
                parts.push(format!("you are agent {}, session {}", quote::name(agent), quote::name(label)));
            }
            (Some(agent), None) => parts.push(format!("you are agent {}", quote::name(agent))),
            (None, _) => {}
        }
        if found.unread > 0 {
            let unread = notices::count(found.unread, "unread ");
            parts.push(format!("{unread}, to be read with the inbox tool"));
        }
        parts.extend(running(client).await);
        (!parts.is_empty()).then(|| added("SessionStart", format!("trl: {}.", parts.join("; "))))
    }

    async fn user_prompt_submit(&self, client: &Client) -> Option<Value> {
        let params = NoticesParams { prompted: true, claim: true, ..self.notices() };
        let found = client.call::<methods::MailNotices>(&params).await.ok()?;
        Some(added("UserPromptSubmit", mention(&found)?))
    }

    /// Mail that came during the turn: the turn goes on. If it does so already because of a hook, mail is left to the waiter.
    async fn stop(&self, client: &Client) -> Option<Value> {
        if self.said.stop_hook_active {
            return None;
        }
        let params = NoticesParams { claim: true, wake: true, respond: true, ..self.notices() };
        let found = client.call::<methods::MailNotices>(&params).await.ok()?;
        Some(json!({ "decision": "block", "reason": mention(&found)? }))
    }

    /// The program goes on with another session after `/clear` or `/resume`: its server keeps the label.
    async fn session_end(&self, client: &Client) -> Option<Value> {
        if matches!(self.said.reason.as_deref(), Some("clear" | "resume")) {
            return None;
        }
        let params =
            ReleaseParams { harness_session_id: Some(self.session_id.clone()), ..ReleaseParams::default() };
        let _released = client.call::<methods::AgentRelease>(&params).await.ok()?;
        None
    }
}

fn added(event: &str, text: String) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
}

fn mention(found: &Notices) -> Option<String> {
    let new = notices::count(found.new.len() as u64, "new ");
    (!found.new.is_empty())
        .then(|| format!("trl: {new}, to be read with the inbox tool. {}", notices::NOT_FROM_YOUR_USER))
}

async fn running(client: &Client) -> Option<String> {
    let execs = client.exec_list(&ListParams { session_id: None, own: false }).await.ok()?.execs;
    let running: Vec<String> = execs
        .iter()
        .filter(|exec| exec.state == ExecState::Running)
        .map(|exec| {
            let line = exec.command.lines().next().unwrap_or_default();
            let short: String = quote::inline(line).chars().take(LONGEST_COMMAND).collect();
            format!("{} `{short}`", exec.exec_id)
        })
        .collect();
    let more = running.len().saturating_sub(NAMED_COMMANDS);
    let mut named = running.into_iter().take(NAMED_COMMANDS).collect::<Vec<_>>().join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    (!named.is_empty()).then(|| format!("running commands: {named}"))
}
