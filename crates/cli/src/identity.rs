//! Which agent a verb speaks for, and as which of its sessions.
//!
//! A terminal is one session of an agent: every call made in it comes as the same one, so a
//! reply to what one call sent is found by the next. Inside a session of trl, the session
//! itself is that terminal.

use trl_client::{Client, Conversation, Error};
use trl_protocol::agent::{UseParams, Used};
use trl_protocol::{Code, SessionId, methods};
use trl_sys::process;

use crate::failure::{Failure, Result};
use crate::harness;

pub(crate) const AGENT: &str = "TRL_AGENT";
pub(crate) const LABEL: &str = "TRL_LABEL";
const INSIDE: &str = "TRL_SESSION_ID";

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

    /// The same, with wishes about the session.
    pub(crate) async fn claim<'c>(&self, client: &'c Client, wishes: UseParams) -> Result<Speaker<'c>> {
        self.try_claim(client, wishes).await.map_err(explained)
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

/// The daemon says which params it lacks; a person is told what to type.
pub(crate) fn explained(error: Error) -> Failure {
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
