//! `trl mcp`: sessions and mail as tools, for one MCP client on stdin and stdout.

use std::sync::Arc;

use trl_mcp::{Profile, Server};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::harness;
use crate::identity;
use crate::target;
use crate::verbs::{serve, version};

/// Serve the Model Context Protocol on stdin and stdout
///
/// For Claude Code, Codex, Cursor and other agents: docs/agents.md explains the installation.
/// What the agent starts ends with it, unless it asks to keep it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tools to offer: minimal, terminal, default, mail, files, full, or names separated by commas [env: TRL_MCP_TOOLS]
    #[arg(long, value_name = "SET")]
    tools: Option<Profile>,
    /// Give results as fields too, with output schemas; for programs [env: TRL_MCP_STRUCTURED]
    #[arg(long)]
    structured: bool,
    /// The agent to send and read mail as [env: TRL_AGENT]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Run sessions and mail in this process, without a daemon; they end with it
    #[arg(long)]
    embedded: bool,
}

impl Args {
    fn settings(&self, context: &Context) -> trl_mcp::Settings {
        trl_mcp::Settings {
            profile: self.tools.clone().unwrap_or_else(|| context.settings.mcp_tools.clone()),
            structured: self.structured || context.settings.mcp_structured,
            new_session: target::creation(None, &target::Making::default()),
            agent: self.agent.clone().or_else(|| identity::told(identity::AGENT)),
            harness_session_id: harness::session_id(),
            project: harness::project(),
            channel: context.settings.channel,
            present: self.agent.is_some()
                || identity::told(identity::AGENT).is_some()
                || context.may_have_mail(),
            harness: harness::name().map(str::to_owned),
            label: identity::told(identity::LABEL),
            terminal: identity::inside(),
            pid: Some(std::process::id()),
            ..trl_mcp::Settings::new(version::OURS)
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<u8> {
    let settings = args.settings(context);
    serve::log_quietly(&context.settings)?;
    if args.embedded {
        serve::embedded(&context.settings, settings)?;
        return Ok(0);
    }
    crate::context::block_on(async {
        let server = Server::new(context.client().await?, Arc::new(settings));
        let served = trl_mcp::serve_stdio(server, Box::pin(serve::told_to_end())).await;
        served.map_err(|error| Failure::unavailable(error.to_string()))?;
        Ok(0)
    })?
}
