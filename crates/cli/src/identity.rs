//! Which agent a verb speaks for, and as which of its sessions.
//!
//! A terminal is one session of an agent: every call made in it comes as the same one, so a
//! reply to what one call sent is found by the next.

use trl_client::{Client, Conversation};
use trl_mail::presence::{Processes as _, SystemProcesses};
use trl_protocol::agent::{AgentList, UseParams, Used};
use trl_protocol::system::NoParams;

use crate::failure::{Failure, Result};

const AGENT: &str = "TRL_AGENT";
const INSIDE: &str = "TRL_SESSION_ID";

#[derive(Debug, clap::Args)]
pub(crate) struct Who {
    /// The agent to speak for; without it the only one there is [env: TRL_AGENT]
    #[arg(long = "as", value_name = "AGENT")]
    agent: Option<String>,
}

impl Who {
    /// The agent's name as it was given, or the only agent.
    pub(crate) async fn name(&self, client: &Client) -> Result<String> {
        let told = self.agent.clone().or_else(|| std::env::var(AGENT).ok().filter(|name| !name.is_empty()));
        if let Some(name) = told {
            return Ok(name);
        }
        let list: AgentList = client.request("agent.list", NoParams {}).await?;
        let mut names: Vec<String> = list.agents.into_iter().map(|row| row.agent).collect();
        match (names.pop(), names.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => {
                Err(Failure::usage("there is no agent to speak for")
                    .hint("`trl agent create NAME` makes one"))
            }
            (Some(last), false) => {
                names.push(last);
                Err(Failure::usage("there are several agents; say which one speaks")
                    .hint(format!("give --as or set {AGENT} to one of: {}", names.join(", "))))
            }
        }
    }

    /// A connection that speaks for the agent while it lasts.
    pub(crate) async fn speak<'c>(&self, client: &'c Client) -> Result<Conversation<'c>> {
        let agent = self.name(client).await?;
        let (harness_session_id, pid) = here();
        let cwd = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
        let mut conversation = client.conversation().await?;
        let params = UseParams {
            agent,
            harness: Some("cli".to_owned()),
            harness_session_id: Some(harness_session_id),
            cwd,
            pid: Some(pid),
            ..UseParams::default()
        };
        let _: Used = conversation.request("agent.use", params).await?;
        Ok(conversation)
    }
}

/// This terminal: a name that stays while it is open, and the process that it lives by.
fn here() -> (String, u32) {
    let number = |pid: rustix::process::Pid| pid.as_raw_nonzero().get().unsigned_abs();
    let leader = rustix::process::getsid(None).ok().map(number);
    let parent = rustix::process::getppid().map(number);
    let living = |pid: u32| SystemProcesses.start_of(pid).map(|start| (pid, start));
    let us = (std::process::id(), 0);
    let (pid, start) = [leader, parent].into_iter().flatten().find_map(living).unwrap_or(us);
    let name = match std::env::var(INSIDE) {
        Ok(session) if !session.is_empty() => format!("trl-{session}"),
        _ => format!("terminal-{pid}-{start}"),
    };
    (name, pid)
}
