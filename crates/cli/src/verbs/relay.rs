//! `trl relay`: the broker between machines, made ready and looked at.

use std::path::PathBuf;

use serde::Serialize;
use trl_mail::identity::Address;
use trl_mail::relay::nats::kit::Kit;
use trl_mail::relay::nats::{Credentials, NatsConfig, Quota, check, setup};
use trl_protocol::methods;
use trl_protocol::system::NoParams;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;

/// Prepare and check the broker (NATS JetStream) that carries mail between machines
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make keys, the broker's config, and the mailboxes; again as often as you like
    ///
    /// Keys and config are made in a directory of this machine, which should be its
    /// administrator's. With a broker that runs with that config, mailboxes and the directory
    /// of public keys are made there and compared with what they must be.
    Init(Init),
    /// Try, as each agent of this daemon, what must work and what must be refused
    Check {
        /// Only this agent, by name
        agent: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Init {
    /// An agent to let in; `trl agent list` on its machine tells the address
    #[arg(long = "agent", value_name = "NAME=ADDRESS")]
    agents: Vec<String>,
    /// Where keys and config are kept [default: `relay` beside the config file]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The broker, `nats://HOST:4222` or `tls://HOST:4222`; without it only files are made
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Parcels that may wait in one mailbox [default: as it is; a new one 10000]
    #[arg(long, value_name = "COUNT")]
    mailbox_parcels: Option<i64>,
    /// Of these, from one sender [default: as it is; a new one 2000]
    #[arg(long, value_name = "COUNT")]
    sender_parcels: Option<i64>,
    /// Bytes that may wait in one mailbox, reserved on the broker's disk; -1 is no bound
    /// [default: as it is; a new one -1]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    mailbox_bytes: Option<i64>,
    /// Copies of everything, in a cluster [default: as it is; at first 1]
    #[arg(long, value_name = "COUNT")]
    replicas: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Made {
    admin: PathBuf,
    credentials: Vec<Credential>,
    config_file: PathBuf,
    config: String,
    /// Whether the broker must read it anew.
    config_changed: bool,
    streams: Vec<setup::Prepared>,
}

#[derive(Debug, Serialize)]
struct Credential {
    agent: String,
    address: String,
    file: PathBuf,
    /// Missing where no broker was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    admitted: Option<bool>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.action {
        Action::Init(init) => prepare(init, context).await,
        Action::Check { agent } => look(agent.as_deref(), context).await,
    }
}

async fn prepare(init: &Init, context: &Context) -> Result<u8> {
    let beside = || context.settings.places.config_file.parent().map(|dir| dir.join("relay"));
    let dir = init.dir.clone().or_else(beside).unwrap_or_else(|| PathBuf::from("relay"));
    let bad = |error: &dyn std::fmt::Display| Failure::unavailable(error.to_string());
    let mut kit = Kit::open(&dir).map_err(|error| bad(&error))?;
    for agent in &init.agents {
        let (name, address) = agent.split_once('=').unwrap_or(("", agent));
        let address = Address::parse(address).map_err(|error| {
            Failure::usage(format!("--agent {agent}: {error}"))
                .hint("`trl agent list` on the agent's machine tells its address")
        })?;
        kit.add(name, &address).map_err(|error| bad(&error))?;
    }
    let config_changed = kit.write_config().map_err(|error| bad(&error))?;
    let mut made = Made {
        admin: kit.admin_file(),
        credentials: Vec::new(),
        config_file: kit.config_file(),
        config: kit.config(),
        config_changed,
        streams: Vec::new(),
    };
    let broker = init.url.as_ref().map(|url| NatsConfig {
        servers: url.clone(),
        credentials: Credentials::File(kit.admin_file()),
        tls: context.settings.relay_tls.clone(),
    });
    if let Some(broker) = &broker {
        let addresses: Vec<Address> = kit.members().iter().map(|member| member.address.clone()).collect();
        let quota = Quota {
            parcels: init.mailbox_parcels,
            parcels_per_sender: init.sender_parcels,
            bytes: init.mailbox_bytes,
        };
        made.streams = setup::prepare(broker, &addresses, quota, init.replicas).await.map_err(|error| {
            bad(&error).hint(format!(
                "have nats-server run with JetStream and {} included in its config (by a path from that \
                 config's directory), then run this again",
                kit.config_file().display()
            ))
        })?;
    }
    for member in kit.members() {
        let file = kit.key_file(&member.address);
        let admitted = match &broker {
            Some(broker) => Some(setup::is_admitted(broker, &file).await),
            None => None,
        };
        let (agent, address) = (member.name.clone(), member.address.to_string());
        made.credentials.push(Credential { agent, address, file, admitted });
    }
    show(&made, broker.is_some(), context)
}

fn show(made: &Made, asked: bool, context: &Context) -> Result<u8> {
    let output = context.output;
    let waiting = made.credentials.iter().any(|credential| credential.admitted == Some(false));
    let status = u8::from(waiting);
    if output.json {
        output.json(made)?;
        return Ok(status);
    }
    output.line(&made.config)?;
    output::note(&format!("config      {} (as above)", made.config_file.display()));
    output::note(&format!("admin key   {} (keep it here)", made.admin.display()));
    for credential in &made.credentials {
        let state = match credential.admitted {
            Some(true) => ", admitted",
            Some(false) => {
                ", NOT admitted: have the broker read its config anew (nats-server --signal reload)"
            }
            None => "",
        };
        output::note(&format!("agent key   {} ({}{state})", credential.file.display(), credential.agent));
    }
    for stream in &made.streams {
        output::note(&format!("stream      {} ({})", stream.stream, stream.done.word()));
    }
    if !asked {
        output::note("include the config in nats-server's, start it, then run this again with --url");
    }
    Ok(status)
}

async fn look(agent: Option<&str>, context: &Context) -> Result<u8> {
    let Some(relay) = &context.settings.relay else {
        return Err(Failure::usage("no relay is set: mail stays on this machine")
            .hint("set TRL_RELAY, or `relay` in the config file, to nats://HOST:4222"));
    };
    let list = context.client().await?.call::<methods::AgentList>(&NoParams {}).await?;
    let mut looked = Vec::new();
    for row in list.agents.into_iter().filter(|row| agent.is_none_or(|agent| row.agent == agent)) {
        let address = Address::parse(&row.address).map_err(|error| Failure::usage(error.to_string()))?;
        looked.push(Looked { findings: check::check(relay, &address).await, agent: row.agent });
    }
    if looked.is_empty() {
        return Err(
            Failure::usage("there is no such agent on this machine").hint("`trl agent list` shows them")
        );
    }
    let fine = looked.iter().all(|looked| looked.findings.iter().all(|finding| finding.ok));
    let output = context.output;
    if output.json {
        output.json(&Checked { ok: fine, agents: looked })?;
        return Ok(u8::from(!fine));
    }
    for looked in &looked {
        output.line(format!("{}:", looked.agent))?;
        for finding in &looked.findings {
            let mark = if finding.ok { "ok   " } else { "WRONG" };
            output.line(format!("  {mark} {}: {}", finding.what, finding.found))?;
            if let Some(remedy) = &finding.remedy {
                output.line(format!("        → {remedy}"))?;
            }
        }
    }
    Ok(u8::from(!fine))
}

#[derive(Debug, Serialize)]
struct Checked {
    ok: bool,
    agents: Vec<Looked>,
}

#[derive(Debug, Serialize)]
struct Looked {
    agent: String,
    findings: Vec<check::Finding>,
}
