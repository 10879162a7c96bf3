//! `trl relay check`: tries, as each agent of this daemon, what must work and what must be refused.

use serde::Serialize;
use trl_mail::identity::Address;
use trl_protocol::methods;
use trl_protocol::system::NoParams;
use trl_relay_nats::check;

use crate::context::Context;
use crate::failure::{Failure, Result};

pub(super) async fn run(agent: Option<&str>, context: &Context) -> Result<u8> {
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
