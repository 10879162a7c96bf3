//! `runtime.grant`: a token for an agent of another daemon, sent by sealed mail.
//!
//! The grant is stored with the hash of its token before the token leaves, and taken back if the mail is refused.
//! The token is in the message alone: neither the reply nor a log has it.

use std::sync::Arc;

use trl_mail::envelope::RuntimeWord;
use trl_protocol::agent::Token;
use trl_protocol::grant::{GrantParams, Granted};
use trl_protocol::isolation::Profile;
use trl_protocol::{Code, Fault};

use crate::grants::reach::{self, Reach};
use crate::grants::{Grant, Party, now_ms, rfc3339, token_hash};
use crate::ops::session::create::check_limits;
use crate::runtime::Inner;
use crate::seconds;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: GrantParams) -> Result<Granted, Fault> {
    let profile = params.profile.unwrap_or(Profile::Workspace);
    check(&params, profile)?;
    let mail = runtime.mailroom.mail().await?;
    let parties = mail.parties_of_grant(params.from.clone(), params.agent.clone()).await?;
    let names = rustix::system::uname();
    let host = names.nodename().to_string_lossy().into_owned();
    let Reach { url, ca } = reach::find(&runtime.config.announced, &host, parties.is_here)?;
    let token = format!("trlg-{}", random_hex::<32>()?);
    let now = now_ms();
    let grant = Grant {
        version: 1,
        id: format!("g-{}", random_hex::<8>()?),
        agent: Party { name: parties.to_name, address: parties.to_address },
        granted_by: Party { name: parties.from_name, address: parties.from_address },
        profile,
        limits: params.limits.unwrap_or_default(),
        max_sessions: params.max_sessions,
        working_dir: params.working_dir,
        created_at: now,
        expires_at: params.expires_s.map(|seconds| now + (seconds * 1000.0).ceil() as i64),
        revoked_at: None,
        token_sha256: token_hash(token.as_bytes()),
        sessions: Vec::new(),
    };
    runtime.grants.add(grant.clone())?;
    let expires_at = grant.expires_at.map(rfc3339);
    let word = RuntimeWord::Granted {
        grant_id: grant.id.clone(),
        url: url.clone(),
        token: Token(token),
        ca,
        host: host.clone(),
        profile: profile.name().to_owned(),
        expires_at: grant.expires_at,
    };
    let text = format!("you may create sessions on {host}: grant {}, isolation {}", grant.id, profile.name());
    let (from, to) = (&grant.granted_by.address, &grant.agent.address);
    let message_id = match mail.tell_of_runtime(from, to, text, word, params.expires_s).await {
        Ok(message_id) => message_id,
        Err(fault) => {
            runtime.grants.discard(&grant.id);
            return Err(fault);
        }
    };
    tracing::info!(
        grant = grant.id,
        agent = grant.agent.address,
        profile = profile.name(),
        "access was granted"
    );
    Ok(Granted {
        grant_id: grant.id,
        agent: grant.agent.name,
        address: grant.agent.address,
        granted_by: grant.granted_by.name,
        granted_by_address: grant.granted_by.address,
        profile,
        url,
        expires_at,
        message_id,
    })
}

fn check(params: &GrantParams, profile: Profile) -> Result<(), Fault> {
    let refuse = |field: &str, why: &str| {
        Err(Fault::invalid(format!("param `{field}`: {why}"))
            .with_details(serde_json::json!({ "field": field })))
    };
    check_limits(&params.limits.clone().unwrap_or_default())?;
    if let Some(expires_s) = params.expires_s
        && seconds::checked("expires_s", expires_s)? == 0.0
    {
        return refuse(
            "expires_s",
            "a grant that has expired already is of no use; leave it out for one without end",
        );
    }
    if params.max_sessions == Some(0) {
        return refuse("max_sessions", "at least 1");
    }
    if let Some(dir) = &params.working_dir {
        let path = std::path::Path::new(dir);
        if !path.is_absolute() || !path.is_dir() {
            return refuse("working_dir", "the absolute path of a directory is expected");
        }
    }
    let (enforced, missing) = trl_confine::support();
    if enforced.contains(&profile) {
        return Ok(());
    }
    let why: Vec<String> = missing.iter().map(|missing| missing.why.clone()).collect();
    let message =
        format!("this machine cannot enforce the isolation {:?}: {}", profile.name(), why.join("; "));
    Err(Fault::new(Code::IsolationUnavailable, message))
}

fn random_hex<const N: usize>() -> Result<String, Fault> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Fault::internal(format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
