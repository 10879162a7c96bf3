//! Which agent a verb speaks for, and as which of its sessions.
//!
//! A terminal is one session of an agent: every call made in it comes as the same one, so a
//! reply to what one call sent is found by the next. Inside a session of trl, the session
//! itself is that terminal.

use std::time::Duration;

use trl_client::{Client, Conversation, Error};
use trl_protocol::agent::{ReleaseParams, UseParams, Used};
use trl_protocol::system::NoParams;
use trl_protocol::{Code, Method as _, SessionId, methods};
use trl_sys::process;

use crate::failure::{Failure, Result};
use crate::harness;

pub(crate) const AGENT: &str = "TRL_AGENT";
pub(crate) const LABEL: &str = "TRL_LABEL";
const INSIDE: &str = "TRL_SESSION_ID";

/// Before a daemon that is being replaced is asked again: nothing tells when the next one listens.
pub(crate) const TRY_AGAIN: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 50;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Who {
    /// The agent to act for; default: the one of `trl agent use`, or the only one [env: TRL_AGENT]
    #[arg(long = "as", value_name = "AGENT")]
    agent: Option<String>,
}

/// An agent's session, spoken for by a connection that is held as long as this is.
#[derive(Debug)]
pub(crate) struct Speaker<'c> {
    pub(crate) line: Conversation<'c>,
    pub(crate) used: Used,
}

/// An agent's session for the time of a look at its mail.
#[derive(Debug)]
pub(crate) struct Looker<'c> {
    pub(crate) line: Conversation<'c>,
    was_live: bool,
}

impl Looker<'_> {
    /// A session that was not there before is not there afterwards: it would be given mail that nobody reads there.
    pub(crate) async fn leave(mut self) -> Result<()> {
        if !self.was_live {
            let _ = self.line.call::<methods::AgentRelease>(&ReleaseParams::default()).await?;
        }
        Ok(())
    }
}

impl Who {
    pub(crate) fn named(agent: &str) -> Who {
        Who { agent: Some(agent.to_owned()) }
    }

    /// The agent as it was given, without asking anyone.
    pub(crate) fn given(&self) -> Option<String> {
        self.agent.clone().or_else(|| told(AGENT))
    }

    /// A connection that speaks for the agent while it lasts.
    pub(crate) async fn speak<'c>(&self, client: &'c Client) -> Result<Conversation<'c>> {
        Ok(self.claim(client, UseParams::default()).await?.line)
    }

    /// The same after the daemon went away; the next one may not listen yet.
    pub(crate) async fn speak_again<'c>(&self, client: &'c Client) -> Result<Conversation<'c>> {
        Ok(self.claim_from(client, UseParams::default(), true).await?.line)
    }

    /// The same as [`Who::speak`], with wishes about the session.
    pub(crate) async fn claim<'c>(&self, client: &'c Client, wishes: UseParams) -> Result<Speaker<'c>> {
        self.claim_from(client, wishes, false).await
    }

    /// Whoever claims twice is the same session, so a claim whose answer was lost is made again.
    async fn claim_from<'c>(
        &self,
        client: &'c Client,
        wishes: UseParams,
        mut was_there: bool,
    ) -> Result<Speaker<'c>> {
        let mut attempts = ATTEMPTS;
        loop {
            match self.try_claim(client, wishes.clone()).await {
                Err(error) if attempts > 0 && is_replaced(&error) => was_there = true,
                Err(Error::NoDaemon { .. }) if attempts > 0 && was_there => {}
                claimed => return claimed.map_err(explained),
            }
            attempts -= 1;
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    /// For a look that takes nothing: [`Looker::leave`] undoes what looking has changed.
    pub(crate) async fn look<'c>(&self, client: &'c Client) -> Result<Looker<'c>> {
        let before = client.call::<methods::AgentList>(&NoParams {}).await?;
        let Speaker { line, used } = self.claim(client, UseParams::default()).await?;
        let was_live = before
            .agents
            .iter()
            .any(|row| row.agent == used.agent && row.live_sessions.contains(&used.label));
        Ok(Looker { line, was_live })
    }

    pub(crate) async fn try_claim<'c>(
        &self,
        client: &'c Client,
        wishes: UseParams,
    ) -> std::result::Result<Speaker<'c>, Error> {
        let (harness_session_id, pid) = here();
        let cwd = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
        let params = UseParams {
            agent: self.given(),
            label: wishes.label.clone().or_else(|| told(LABEL)),
            harness: Some("cli".to_owned()),
            harness_session_id: Some(harness_session_id),
            project: harness::project(),
            cwd,
            pid: Some(pid),
            terminal: inside(),
            ..wishes
        };
        let mut line = client.conversation().await?;
        let used = line.call::<methods::AgentUse>(&params).await?;
        Ok(Speaker { line, used })
    }
}

/// The daemon is ending, or is gone.
pub(crate) fn is_replaced(error: &Error) -> bool {
    match error {
        Error::Lost { .. } => true,
        Error::Fault(fault) => fault.code == Code::ShuttingDown,
        _ => false,
    }
}

/// The daemon says which params it lacks; a person is told what to type.
pub(crate) fn explained(error: Error) -> Failure {
    if let Error::Lost { method } = &error {
        let hint = match *method {
            methods::MailSend::NAME | methods::MailReply::NAME => {
                "it may have been sent all the same: the recipient's inbox, or `trl sent ID`, shows it"
            }
            _ => "no mail is lost by this; try again",
        };
        return Failure::unavailable(error.to_string()).hint(hint);
    }
    let lacking = match &error {
        Error::Fault(fault) if fault.code == Code::InvalidParams => {
            fault.details.as_ref().filter(|details| details["field"] == "agent").cloned()
        }
        _ => None,
    };
    let Some(details) = lacking else { return error.into() };
    let names = details["agents"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = names.iter().filter_map(|name| name.as_str()).collect();
    Failure::usage("there are several agents; say which one speaks").hint(format!(
        "give --as, set {AGENT} or, once for this terminal, `trl agent use`, with one of: {}",
        names.join(", ")
    ))
}

pub(crate) fn told(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

pub(crate) fn inside() -> Option<SessionId> {
    told(INSIDE)?.parse().ok()
}

/// This terminal: a name that stays while it is open, and the process that it lives by.
fn here() -> (String, u32) {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let living = |pid: u32| process::start_time(pid).map(|start| (pid, start));
    let us = (std::process::id(), 0);
    let (pid, start) = [leader(), parent].into_iter().flatten().find_map(living).unwrap_or(us);
    let name = match inside() {
        Some(session) => format!("trl-{session}"),
        None => format!("terminal-{pid}-{start}"),
    };
    (name, pid)
}

/// The leader of our terminal session. In a container it may live outside, where the kernel tells
/// 0 instead of a pid; rustix takes that answer for impossible, so it is read where 0 may stand.
#[cfg(target_os = "linux")]
fn leader() -> Option<u32> {
    u32::try_from(process::own_stat()?.session).ok().filter(|pid| *pid != 0)
}

#[cfg(not(target_os = "linux"))]
fn leader() -> Option<u32> {
    rustix::process::getsid(None).ok().map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
}
