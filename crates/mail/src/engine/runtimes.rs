//! Access to the sessions of other daemons: told by mail, kept by name.
//!
//! A message about a runtime carries a word that this daemon takes out when it receives it. What
//! its reader sees is a notice that is written here, so that neither a token nor the sender's own
//! idea of a name reaches an inbox.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use trl_protocol::agent::Token;
use trl_protocol::mail::SendParams;
use trl_protocol::{Code, Fault};

use crate::engine::identity::agents::no_such_agent;
use crate::engine::identity::sessions::Session;
use crate::engine::{Engine, Tx, Wake};
use crate::envelope::{RuntimeWord, rfc3339};
use crate::error::MailError;
use crate::identity::Address;

/// Longest part of a name that comes from the other machine's.
const MAX_HOST: usize = 32;
const MAX_URL: usize = 512;
const MAX_CA: usize = 64 * 1024;

/// A runtime that an agent of this daemon was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedRuntime {
    pub name: String,
    pub url: String,
    pub token: Token,
    pub ca: Option<String>,
    /// The address of the agent that granted it.
    pub granted_by: String,
    pub grant_id: String,
    /// RFC 3339.
    pub expires_at: Option<String>,
}

/// Who grants, and who is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parties {
    pub from_name: String,
    pub from_address: String,
    pub to_name: String,
    pub to_address: String,
    /// Both are agents of this daemon.
    pub is_here: bool,
}

/// Keeps what it needs of the mail; the mail itself can be closed meanwhile.
#[derive(Debug)]
pub struct GrantedRuntimes {
    engine: Arc<Engine>,
}

impl GrantedRuntimes {
    pub(crate) fn new(engine: Arc<Engine>) -> GrantedRuntimes {
        GrantedRuntimes { engine }
    }

    pub async fn all(&self) -> Result<Vec<GrantedRuntime>, Fault> {
        Ok(self.engine.tx(|tx| tx.granted_runtimes()).await?)
    }

    /// Waits until they are not these. `Err`: the mail is closed.
    pub async fn beyond(&self, known: &[GrantedRuntime]) -> Result<Vec<GrantedRuntime>, Fault> {
        let wakeup = self.engine.env.wakeups.listen(Wake::Runtimes);
        loop {
            let now = self.all().await?;
            if now != known {
                return Ok(now);
            }
            wakeup.notify.notified().await;
        }
    }
}

impl Tx<'_> {
    pub(crate) fn parties_of_grant(&self, from: Option<&str>, to: &str) -> Result<Parties, MailError> {
        let to = to.split_once('/').map_or(to, |(who, _)| who);
        let mut candidates = match from {
            Some(from) => vec![self.known_agent(from)?],
            None => self.all_agents()?,
        };
        // Anyone else before the agent itself, which may be the only one here.
        candidates.sort_by_key(|agent| (agent.name == to || agent.address.as_str() == to, agent.id));
        let mut refusal: Option<MailError> = None;
        for agent in candidates {
            let found = self.peer(agent.id, to).and_then(|peer| self.gate(agent.id, &peer).map(|()| peer));
            match found {
                Ok(peer) => {
                    return Ok(Parties {
                        from_name: agent.name,
                        from_address: agent.address.to_string(),
                        to_name: peer.shown,
                        to_address: peer.address.to_string(),
                        is_here: peer.own,
                    });
                }
                Err(error) if refusal.is_none() || is_about_contact(&error) => refusal = Some(error),
                Err(_) => {}
            }
        }
        Err(refusal.unwrap_or_else(|| no_such_agent(to, &[]).into()))
    }

    pub(crate) fn tell_of_runtime(
        &mut self,
        from: &str,
        to: String,
        text: String,
        word: RuntimeWord,
        expires_s: Option<f64>,
    ) -> Result<String, MailError> {
        let agent = self.known_agent(from)?;
        let week = crate::config::millis(self.env.config.expiry) as f64 / 1000.0;
        let expires_s = expires_s.map(|seconds| seconds.min(week));
        let params =
            SendParams { to, text: text.into(), auto: Some(true), expires_s, ..SendParams::default() };
        let (sent, _) = self.send_with(&Session::machine(agent.id), params, Some(word))?;
        Ok(sent.message_id)
    }

    /// A word about a runtime has arrived: its token is not kept here any longer.
    pub(crate) fn forget_runtime_word(&self, outbox_id: i64) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "UPDATE outbox SET body = CAST(json_remove(CAST(body AS TEXT), '$.trl.runtime') AS BLOB)
                 WHERE id = ?1 AND from_uuid LIKE 'auto-%' AND instr(body, '\"runtime\"') > 0
                   AND json_valid(CAST(body AS TEXT))",
            )?
            .execute([outbox_id])?;
        Ok(())
    }

    /// Takes a word about a runtime from a contact. Returns the notice for whoever reads the mail.
    pub(crate) fn take_runtime_word(
        &mut self,
        agent_id: i64,
        from: &Address,
        word: RuntimeWord,
    ) -> Result<String, MailError> {
        let who = self.shown(agent_id, from.as_str())?;
        match word {
            RuntimeWord::Granted { grant_id, url, token, ca, host, profile, expires_at } => {
                let is_usable = is_plain(&grant_id, 64)
                    && is_plain(&profile, 16)
                    && is_plain(&token, 256)
                    && is_url(&url)
                    && ca.as_ref().is_none_or(|ca| ca.len() <= MAX_CA);
                if !is_usable {
                    tracing::warn!(agent_id, %from, "a grant that cannot be used was ignored");
                    return Ok(format!("{who} ({from}) sent a grant of a runtime that cannot be used here."));
                }
                if expires_at.is_some_and(|at| at <= self.now) {
                    return Ok(format!("{who} ({from}) granted you a runtime, but the grant has expired."));
                }
                let name = self.runtime_name(agent_id, from, &grant_id, &who, &host)?;
                self.db.execute(
                    "INSERT INTO granted_runtimes (name, agent_id, sender, grant_id, url, token, ca, expires_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                     ON CONFLICT (name) DO UPDATE SET url = ?5, token = ?6, ca = ?7, expires_at = ?8",
                    params![name, agent_id, from.as_str(), grant_id, url, token.0, ca, expires_at],
                )?;
                self.wakes.push(Wake::Runtimes);
                let until = expires_at.map_or(String::new(), |at| format!(", until {}", rfc3339(at)));
                if let Some(at) = expires_at {
                    self.due_at(at);
                }
                Ok(format!(
                    "{who} ({from}) granted you the runtime {name} (isolation {profile}{until}). \
                     `trl run --on {name} COMMAND` uses it."
                ))
            }
            RuntimeWord::Revoked { grant_id } => {
                let name: Option<String> = self
                    .db
                    .prepare_cached(
                        "DELETE FROM granted_runtimes WHERE agent_id = ?1 AND sender = ?2 AND grant_id = ?3
                         RETURNING name",
                    )?
                    .query_row(params![agent_id, from.as_str(), grant_id], |row| row.get(0))
                    .optional()?;
                self.wakes.push(Wake::Runtimes);
                Ok(match name {
                    Some(name) => format!("{who} ({from}) revoked the grant of the runtime {name}."),
                    None => format!("{who} ({from}) revoked a grant of a runtime."),
                })
            }
        }
    }

    /// The name of a granted runtime: who granted it and where it is, with a number if that is taken.
    fn runtime_name(
        &self,
        agent_id: i64,
        from: &Address,
        grant_id: &str,
        who: &str,
        host: &str,
    ) -> Result<String, MailError> {
        let known: Option<String> = self
            .db
            .prepare_cached(
                "SELECT name FROM granted_runtimes WHERE agent_id = ?1 AND sender = ?2 AND grant_id = ?3",
            )?
            .query_row(params![agent_id, from.as_str(), grant_id], |row| row.get(0))
            .optional()?;
        if let Some(known) = known {
            return Ok(known);
        }
        let base = base_name(who, host);
        let mut taken = self.db.prepare_cached("SELECT 1 FROM granted_runtimes WHERE name = ?1")?;
        let mut name = base.clone();
        for number in 2.. {
            if !taken.exists([&name])? {
                break;
            }
            name = format!("{base}-{number}");
        }
        Ok(name)
    }

    fn granted_runtimes(&self) -> Result<Vec<GrantedRuntime>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT name, url, token, ca, sender, grant_id, expires_at FROM granted_runtimes
             WHERE expires_at IS NULL OR expires_at > ?1 ORDER BY name",
        )?;
        let rows = query.query_map([self.now], |row| {
            Ok(GrantedRuntime {
                name: row.get(0)?,
                url: row.get(1)?,
                token: Token(row.get(2)?),
                ca: row.get(3)?,
                granted_by: row.get(4)?,
                grant_id: row.get(5)?,
                expires_at: row.get::<_, Option<i64>>(6)?.map(rfc3339),
            })
        })?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    pub(crate) fn expire_runtimes(&mut self) -> Result<(), MailError> {
        let expired = self
            .db
            .prepare_cached("DELETE FROM granted_runtimes WHERE expires_at <= ?1")?
            .execute([self.now])?;
        if expired > 0 {
            self.wakes.push(Wake::Runtimes);
        }
        Ok(())
    }
}

fn is_about_contact(error: &MailError) -> bool {
    matches!(error, MailError::Refused(fault) if fault.code == Code::ContactRequired)
}

/// Part of a file's name and of what people type: letters, digits and `. _ -`, not beginning with a dot or a dash.
fn base_name(who: &str, host: &str) -> String {
    let clean = |text: &str, most: usize| -> String {
        let kept = text.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c));
        let kept: String = kept.skip_while(|c| ".-".contains(*c)).take(most).collect();
        if kept.is_empty() { "runtime".to_owned() } else { kept }
    };
    format!("{}@{}", clean(who, 64), clean(host, MAX_HOST))
}

fn is_plain(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A server with TLS, or one on this very machine: a token is not sent over a network in the clear.
fn is_url(url: &str) -> bool {
    let is_server = |rest: &str| {
        !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte))
    };
    let is_here = |rest: &str| {
        let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
    };
    if url.len() > MAX_URL {
        return false;
    }
    let url = url.trim_end_matches('/');
    match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => is_server(rest),
        (_, Some(rest)) => is_server(rest) && is_here(rest),
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_whatever_the_other_machine_calls_itself() {
        for (who, host, name) in [
            ("bob", "build1", "bob@build1"),
            ("bob", "../../etc/passwd", "bob@etcpasswd"),
            (".bob", "-x\n", "bob@x"),
            ("bob", "", "bob@runtime"),
            ("bob", "\u{202e}evil:host", "bob@evilhost"),
        ] {
            assert_eq!(base_name(who, host), name);
        }
        assert!(base_name("bob", &"h".repeat(500)).len() < 64);
    }

    #[test]
    fn tokens_go_to_encrypted_servers_or_stay_here() {
        for (url, fine) in [
            ("https://build1:7700", true),
            ("https://build1", true),
            ("https://[fd00::1]:7700", true),
            ("http://127.0.0.1:7700", true),
            ("http://[::1]:7700", true),
            ("http://localhost:7700/", true),
            ("http://build1:7700", false),
            ("http://127.0.0.1.evil.org:7700", false),
            ("http://localhost@evil.org", false),
            ("https://user@evil.org/", false),
            ("https://build1/path", false),
            ("ftp://build1", false),
            ("https://", false),
            ("https://a b", false),
        ] {
            assert_eq!(is_url(url), fine, "{url}");
        }
    }
}
