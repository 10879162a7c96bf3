//! `trl relay init`: keys, the broker's config, and its streams.

use std::path::PathBuf;

use serde::Serialize;
use trl_mail::identity::Address;
use trl_relay_nats::relay_dir::RelayDir;
use trl_relay_nats::setup::Admission;
use trl_relay_nats::{BrokerConfig, Credentials, Quota, setup};

use super::Init;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;

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
    /// How far the broker has taken in the config; missing where no broker was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    admission: Option<Admission>,
}

pub(super) async fn run(init: &Init, context: &Context) -> Result<u8> {
    let beside = || context.settings.places.config_file.parent().map(|dir| dir.join("relay"));
    let dir = init.dir.clone().or_else(beside).unwrap_or_else(|| PathBuf::from("relay"));
    let bad = |error: &dyn std::fmt::Display| Failure::unavailable(error.to_string());
    let mut relay_dir = RelayDir::open(&dir).map_err(|error| bad(&error))?;
    for agent in &init.agents {
        let (name, address) = agent.split_once('=').unwrap_or(("", agent));
        let address = Address::parse(address).map_err(|error| {
            Failure::usage(format!("--agent {agent}: {error}"))
                .hint("`trl agent list` on the agent's machine shows its address")
        })?;
        relay_dir.add(name, &address).map_err(|error| bad(&error))?;
    }
    let config_changed = relay_dir.write_config().map_err(|error| bad(&error))?;
    let mut made = Made {
        admin: relay_dir.admin_file(),
        credentials: Vec::new(),
        config_file: relay_dir.config_file(),
        config: relay_dir.config(),
        config_changed,
        streams: Vec::new(),
    };
    let broker = init.url.as_ref().map(|url| BrokerConfig {
        servers: url.clone(),
        credentials: Credentials::File(relay_dir.admin_file()),
        tls: context.settings.relay_tls.clone(),
    });
    if let Some(broker) = &broker {
        let addresses: Vec<Address> =
            relay_dir.members().iter().map(|member| member.address.clone()).collect();
        let quota = Quota {
            parcels: init.mailbox_parcels,
            parcels_per_sender: init.sender_parcels,
            bytes: init.mailbox_bytes,
        };
        made.streams = setup::prepare(broker, &addresses, quota, init.replicas).await.map_err(|error| {
            bad(&error).hint(format!(
                "have nats-server run with JetStream and {} included in its config (by a path from that \
                 config's directory), then run this again",
                relay_dir.config_file().display()
            ))
        })?;
    }
    for member in relay_dir.members() {
        let file = relay_dir.key_file(&member.address);
        let admission = match &broker {
            Some(broker) => Some(setup::admission(broker, &file).await),
            None => None,
        };
        let (agent, address) = (member.name.clone(), member.address.to_string());
        made.credentials.push(Credential {
            agent,
            address,
            file,
            admitted: admission.map(|admission| admission == Admission::Admitted),
            admission,
        });
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
        let state = match credential.admission {
            Some(Admission::Admitted) => ", admitted",
            Some(Admission::HalfLoaded) => {
                ", NOT admitted yet: reload the broker once more (a new member needs two)"
            }
            Some(Admission::Refused) => {
                ", NOT admitted: reload the broker twice (nats-server --signal reload)"
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
