//! `trl runtimes grant`, `revoke` and `grants`: who else may create sessions here.

use trl_client::Client;
use trl_protocol::grant::{GrantParams, GrantRow, GrantState, RevokeParams};
use trl_protocol::isolation::Profile;
use trl_protocol::methods;
use trl_protocol::quote::inline;
use trl_protocol::system::NoParams;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::human;
use crate::output;
use crate::table::{Keep, Table};
use crate::verbs::run::{limit, seconds};

/// Let an agent create sessions here
///
/// The agent gets a token by encrypted mail, and its daemon lists this one as a runtime. It sees and uses only the
/// sessions that it creates under the grant.
#[derive(Debug, clap::Args)]
pub(crate) struct GrantArgs {
    /// A contact's name or address
    agent: String,
    /// The least isolation of its sessions: `workspace`, `strict`, or `none` for all that you can do yourself
    /// [default: workspace]
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    profile: Option<Profile>,
    /// End the grant after this time: `8h`, `30m`
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    expires: Option<f64>,
    /// The most that each of its sessions may use, such as memory=512M or pids=100; can be repeated
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    limits: Vec<(String, serde_json::Value)>,
    /// Most sessions at a time
    #[arg(long, value_name = "COUNT")]
    max_sessions: Option<usize>,
    /// The directory that its sessions work in and may write; default: a private /tmp
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
    /// The agent of yours that grants; default: the first that has the other as a contact
    #[arg(long = "as", value_name = "AGENT")]
    from: Option<String>,
}

/// End a grant and the sessions under it
#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// A grant's id, or the agent whose grants end
    #[arg(value_name = "GRANT|AGENT")]
    what: String,
}

fn profile(text: &str) -> std::result::Result<Profile, String> {
    let known = [Profile::None, Profile::Workspace, Profile::Strict];
    let found = known.into_iter().find(|profile| profile.name() == text);
    found.ok_or_else(|| "`workspace`, `strict` or `none` is expected".to_owned())
}

pub(crate) async fn grant(args: &GrantArgs, context: &Context) -> Result<u8> {
    let limits: serde_json::Map<String, serde_json::Value> = args.limits.iter().cloned().collect();
    let dir = args.dir.as_ref().map(std::path::absolute).transpose();
    let dir = dir.map_err(|error| Failure::usage(format!("--dir: {error}")))?;
    let params = GrantParams {
        agent: args.agent.clone(),
        profile: args.profile,
        limits: (!limits.is_empty()).then(|| serde_json::from_value(limits.into()).unwrap_or_default()),
        expires_s: args.expires,
        max_sessions: args.max_sessions,
        working_dir: dir.map(|dir| dir.to_string_lossy().into_owned()),
        from: args.from.clone(),
    };
    let granted = context.client().await?.call::<methods::RuntimeGrant>(&params).await?;
    if context.output.json {
        context.output.json(&granted)?;
        return Ok(0);
    }
    let until = granted.expires_at.as_ref().map_or(String::new(), |at| format!(", until {at}"));
    context.output.line(format!(
        "{} granted to {} by {}: {}, isolation {}{until}",
        granted.grant_id,
        inline(&granted.agent),
        inline(&granted.granted_by),
        granted.url,
        granted.profile.name(),
    ))?;
    Ok(0)
}

pub(crate) async fn revoke(args: &RevokeArgs, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut revoked = Vec::new();
    for grant_id in meant(&client, &args.what).await? {
        revoked.push(client.call::<methods::RuntimeRevoke>(&RevokeParams { grant_id }).await?);
    }
    if context.output.json {
        context.output.json(&revoked)?;
        return Ok(0);
    }
    for done in revoked {
        let ended = match done.sessions.len() {
            0 => String::new(),
            1 => "; 1 session ended".to_owned(),
            count => format!("; {count} sessions ended"),
        };
        context.output.line(format!("{} of {} revoked{ended}", done.grant_id, inline(&done.agent)))?;
    }
    Ok(0)
}

/// The grant of this id, or the active ones of this agent.
async fn meant(client: &Client, what: &str) -> Result<Vec<String>> {
    let grants = client.call::<methods::RuntimeGrants>(&NoParams {}).await?.grants;
    if grants.iter().any(|row| row.grant_id == what) {
        return Ok(vec![what.to_owned()]);
    }
    let is_meant =
        |row: &&GrantRow| row.state == GrantState::Active && (row.agent == what || row.address == what);
    let ids: Vec<String> = grants.iter().filter(is_meant).map(|row| row.grant_id.clone()).collect();
    if ids.is_empty() {
        return Err(Failure::usage(format!("there is no grant {what:?}, and none of an agent of that name"))
            .hint("`trl runtimes grants` lists them"));
    }
    Ok(ids)
}

pub(crate) async fn list(context: &Context) -> Result<u8> {
    let found = context.client().await?.call::<methods::RuntimeGrants>(&NoParams {}).await?;
    let output = context.output;
    if output.json {
        output.json(&found)?;
        return Ok(0);
    }
    if found.grants.is_empty() {
        output::note("no grants");
        return Ok(0);
    }
    let mut table = Table::new(
        &["GRANT", "AGENT", "STATE", "ISOLATION", "SESSIONS", "CREATED", "EXPIRES"],
        "AGENT",
        Keep::Start,
    );
    for row in found.grants {
        let most = row.max_sessions.map_or(String::new(), |most| format!("/{most}"));
        table.row(vec![
            row.grant_id,
            row.agent,
            row.state.name().to_owned(),
            row.profile.name().to_owned(),
            format!("{}{most}", row.sessions.len()),
            human::ago(&row.created_at),
            row.expires_at.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}
