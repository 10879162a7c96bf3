//! Whether the auto-responder may answer, and what it has done. The guards are all here.

use rusqlite::{OptionalExtension, params};
use trl_protocol::mail::{
    AnswerCommand, Autorespond, AutorespondParams, DeadLetter, DeadLetters, SendParams, Switch,
};
use trl_protocol::{Code, Fault};

use crate::engine::identity::sessions::Session;
use crate::engine::{Tx, Wake};
use crate::envelope::rfc3339;
use crate::error::MailError;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;

/// Everything a guard looks at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    /// A machine wrote it by itself.
    pub(crate) auto: bool,
    /// Our own agent wrote it.
    pub(crate) own: bool,
    /// It names a session: only that session may answer.
    pub(crate) targeted: bool,
    /// It answers something we asked.
    pub(crate) answers_us: bool,
    pub(crate) answered: bool,
    pub(crate) hops: u32,
    pub(crate) max_hops: u32,
    /// Our address is among those whose automatic answers led here.
    pub(crate) in_chain: bool,
    pub(crate) pair_left: bool,
    pub(crate) day_left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Answer,
    /// Not a message that wants an automatic answer.
    Silent,
    /// It would have been answered, but a limit says no; people can see that.
    Refused(&'static str),
}

/// Pure. Loops end here: no answer to a machine, to ourselves, or further down a chain that has us in it.
pub(crate) fn judge(facts: Facts) -> Verdict {
    if facts.auto || facts.own || facts.targeted || facts.answers_us || facts.answered {
        return Verdict::Silent;
    }
    if facts.in_chain {
        return Verdict::Refused("this agent already answered in this chain");
    }
    if facts.hops >= facts.max_hops {
        return Verdict::Refused("too many automatic answers led to this message");
    }
    if !facts.pair_left {
        return Verdict::Refused("the hourly budget for this peer is used up");
    }
    if !facts.day_left {
        return Verdict::Refused("the daily budget is used up");
    }
    Verdict::Answer
}

/// One command to run for one message.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub(crate) agent_id: i64,
    pub(crate) mail_id: i64,
    pub(crate) message_id: String,
    pub(crate) command: Vec<String>,
    pub(crate) network: bool,
    pub(crate) message: serde_json::Value,
}

/// Tells neither what was written nor the command, whose arguments may be secrets.
impl std::fmt::Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Assignment { agent_id, mail_id, message_id, command: _, network, message: _ } = self;
        f.debug_struct("Assignment")
            .field("agent_id", agent_id)
            .field("mail_id", mail_id)
            .field("message_id", message_id)
            .field("network", network)
            .finish_non_exhaustive()
    }
}

/// An agent's auto-responder, when it is on.
struct Responder {
    command: Vec<String>,
    network: bool,
}

impl Tx<'_> {
    /// Called when a message waits because nobody is live.
    pub(crate) fn consider_answer(&mut self, mail_id: i64) -> Result<(), MailError> {
        let on = self
            .db
            .prepare_cached(
                "UPDATE mail SET answer = 'due' WHERE id = ?1 AND answer IS NULL AND agent_id IN
                   (SELECT id FROM agents WHERE auto_command IS NOT NULL)",
            )?
            .execute([mail_id])?;
        if on > 0 {
            self.wakes.push(Wake::Answer);
        }
        Ok(())
    }

    /// The next message to answer; it is marked before the command runs, so it never runs twice.
    pub(crate) fn take_assignment(&mut self) -> Result<Option<Assignment>, MailError> {
        loop {
            let next: Option<(i64, i64, String)> = self
                .db
                .prepare_cached(
                    "SELECT m.id, m.agent_id, m.local_id FROM mail m WHERE m.answer = 'due' ORDER BY m.id LIMIT 1",
                )?
                .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            let Some((mail_id, agent_id, local_id)) = next else { return Ok(None) };
            let (facts, sender, held) = self.facts(mail_id, agent_id)?;
            let responder = self.responder(agent_id)?;
            let verdict = if held { judge(facts) } else { Verdict::Silent };
            match (verdict, responder) {
                (Verdict::Answer, Some(Responder { command, network })) => {
                    self.set_answer(mail_id, "running")?;
                    self.db.execute(
                        "INSERT INTO answers (mail_id, agent_id, peer, at) VALUES (?1, ?2, ?3, ?4)",
                        params![mail_id, agent_id, sender, self.now],
                    )?;
                    let (_, message) = self.message_named(agent_id, &local_id)?;
                    let message =
                        serde_json::to_value(message).map_err(|_| MailError::Corrupt { what: "message" })?;
                    return Ok(Some(Assignment {
                        agent_id,
                        mail_id,
                        message_id: local_id,
                        command,
                        network,
                        message,
                    }));
                }
                (Verdict::Refused(why), Some(_)) => {
                    self.set_answer(mail_id, "refused")?;
                    self.dead_letter(agent_id, Some(&local_id), &sender, why)?;
                }
                (Verdict::Silent, _) | (_, None) => self.set_answer(mail_id, "silent")?,
            }
        }
    }

    /// Whether the auto-responder is on and no guard forbids an answer to this message.
    pub(crate) fn may_respond(&self, mail_id: i64, agent_id: i64) -> Result<bool, MailError> {
        let is_new = self
            .db
            .prepare_cached(
                "SELECT 1 FROM mail WHERE id = ?1 AND answer IS NULL
                   AND (SELECT count(*) FROM deliveries WHERE mail_id = ?1) <= 1",
            )?
            .exists([mail_id])?;
        Ok(is_new
            && self.responder(agent_id)?.is_some()
            && judge(self.facts(mail_id, agent_id)?.0) == Verdict::Answer)
    }

    fn facts(&self, mail_id: i64, agent_id: i64) -> Result<(Facts, String, bool), MailError> {
        let agent = self.agent_by_id(agent_id)?;
        let (sender, auto, hops, chain, to_session, in_reply_to, route) = self
            .db
            .prepare_cached(
                "SELECT sender, auto, hops, chain, to_session, in_reply_to, route FROM mail WHERE id = ?1",
            )?
            .query_row([mail_id], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get::<_, String>(3)?,
                    row.get::<_, Option<String>>(4)?,
                    row.get::<_, Option<String>>(5)?,
                    row.get::<_, String>(6)?,
                ))
            })?;
        let limits = &self.env.config.auto;
        let answers_us = match &in_reply_to {
            Some(id) => self
                .db
                .prepare_cached("SELECT 1 FROM outbox WHERE agent_id = ?1 AND message_id = ?2 AND peer = ?3")?
                .exists(params![agent_id, id, sender])?,
            None => false,
        };
        let answered =
            self.db.prepare_cached("SELECT 1 FROM answers WHERE mail_id = ?1")?.exists([mail_id])?;
        let pair: u32 = self
            .db
            .prepare_cached("SELECT count(*) FROM answers WHERE agent_id = ?1 AND at > ?2 AND peer = ?3")?
            .query_row(params![agent_id, self.now - HOUR_MS, sender], |row| row.get(0))?;
        let chain: Vec<String> = serde_json::from_str(&chain).unwrap_or_default();
        let facts = Facts {
            auto,
            own: sender == agent.address.as_str(),
            targeted: to_session.is_some(),
            answers_us,
            answered,
            hops,
            max_hops: limits.max_hops,
            in_chain: chain.iter().any(|address| address == agent.address.as_str()),
            pair_left: pair < limits.per_pair_per_hour,
            day_left: self.answers_since(agent_id, self.now - DAY_MS)? < u64::from(limits.per_day),
        };
        Ok((facts, sender, route == "held"))
    }

    fn answered_since(&self, agent_id: i64, since: i64) -> Result<u64, MailError> {
        Ok(self
            .db
            .prepare_cached(
                "SELECT count(*) FROM answers a JOIN mail m ON m.id = a.mail_id
                 WHERE a.agent_id = ?1 AND a.at > ?2 AND m.answer = 'answered'",
            )?
            .query_row([agent_id, since], |row| row.get(0))?)
    }

    /// Runs of the command, also those that failed: what fails at each message must not run at each message.
    fn answers_since(&self, agent_id: i64, since: i64) -> Result<u64, MailError> {
        Ok(self
            .db
            .prepare_cached("SELECT count(*) FROM answers WHERE agent_id = ?1 AND at > ?2")?
            .query_row([agent_id, since], |row| row.get(0))?)
    }

    fn responder(&self, agent_id: i64) -> Result<Option<Responder>, MailError> {
        let (stored, network): (Option<String>, bool) = self
            .db
            .prepare_cached("SELECT auto_command, auto_network FROM agents WHERE id = ?1")?
            .query_row([agent_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let command = stored.and_then(|text| serde_json::from_str(&text).ok());
        Ok(command.map(|command| Responder { command, network }))
    }

    fn set_answer(&self, mail_id: i64, answer: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached("UPDATE mail SET answer = ?2 WHERE id = ?1")?
            .execute(params![mail_id, answer])?;
        Ok(())
    }

    fn dead_letter(
        &self,
        agent_id: i64,
        message_id: Option<&str>,
        peer: &str,
        reason: &str,
    ) -> Result<(), MailError> {
        self.db.execute(
            "INSERT INTO dead_letters (agent_id, message_id, peer, reason, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![agent_id, message_id, peer, reason, self.now],
        )?;
        Ok(())
    }

    /// What the command said goes out as an automatic reply; what went wrong becomes a dead letter.
    pub(crate) fn finish_assignment(
        &mut self,
        assignment: &Assignment,
        outcome: Result<String, String>,
    ) -> Result<(), MailError> {
        let (_, message) = self.message_named(assignment.agent_id, &assignment.message_id)?;
        let sent = match outcome {
            Ok(text) => {
                let params = SendParams {
                    to: message.from_address.clone(),
                    text: text.into(),
                    to_session: message.from_session.clone(),
                    in_reply_to: Some(assignment.message_id.clone()),
                    auto: Some(true),
                    ..SendParams::default()
                };
                self.send(&Session::machine(assignment.agent_id), params).map_err(Fault::from)
            }
            Err(why) => Err(Fault::internal(why)),
        };
        match sent {
            Ok(_) => self.set_answer(assignment.mail_id, "answered"),
            Err(fault) => {
                self.set_answer(assignment.mail_id, "failed")?;
                let id = assignment.message_id.as_str();
                self.dead_letter(assignment.agent_id, Some(id), &message.from_address, &fault.message)
            }
        }
    }

    /// A command that ran when the daemon ended was never heard of again.
    pub(crate) fn bury_interrupted(&mut self) -> Result<(), MailError> {
        let rows: Vec<(i64, String, String)> = {
            let mut query = self.db.prepare_cached(
                "UPDATE mail SET answer = 'failed' WHERE answer = 'running' RETURNING agent_id, local_id, sender",
            )?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (agent_id, message_id, sender) in rows {
            let why = "the daemon ended while the command ran";
            self.dead_letter(agent_id, Some(&message_id), &sender, why)?;
        }
        Ok(())
    }

    pub(crate) fn autorespond(
        &mut self,
        agent_id: i64,
        params: AutorespondParams,
    ) -> Result<Autorespond, MailError> {
        let Some(asked) = params.asked() else {
            let why = "mail.autorespond: one of `on`, `off` and `status`, not several";
            return Err(Fault::invalid(why).into());
        };
        match asked {
            Switch::On => {
                let command = params.command.map(AnswerCommand::words).unwrap_or_default();
                self.switch_on(agent_id, &command, params.network == Some(true))?;
            }
            Switch::Off => {
                self.db.execute("UPDATE agents SET auto_command = NULL WHERE id = ?1", [agent_id])?;
            }
            Switch::Status => {}
        }
        let responder = self.responder(agent_id)?;
        Ok(Autorespond {
            on: responder.is_some(),
            network: responder.as_ref().is_some_and(|responder| responder.network),
            command: responder.map(|responder| responder.command),
            sandbox: self.env.config.auto.sandbox().to_owned(),
            answered_today: self.answered_since(agent_id, self.now - DAY_MS)?,
        })
    }

    fn switch_on(&self, agent_id: i64, command: &[String], network: bool) -> Result<(), MailError> {
        if command.first().is_none_or(String::is_empty) {
            let why = "param `command` of mail.autorespond: the program and its arguments, as a list";
            return Err(Fault::invalid(why).into());
        }
        if self.env.config.auto.confiner.is_some() {
            trl_confine::check().map_err(|why| Fault::new(Code::IsolationUnavailable, why))?;
        }
        let text = serde_json::to_string(command)
            .map_err(|error| Fault::invalid(format!("param `command`: {error}")))?;
        self.db.execute(
            "UPDATE agents SET auto_command = ?2, auto_network = ?3 WHERE id = ?1",
            params![agent_id, text, network],
        )?;
        // A command that was repaired does not pay for its failures. None of these runs again: its mail is marked.
        self.db.execute(
            "DELETE FROM answers WHERE agent_id = ?1
               AND mail_id IN (SELECT id FROM mail WHERE agent_id = ?1 AND answer = 'failed')",
            [agent_id],
        )?;
        Ok(())
    }

    pub(crate) fn dead_letters(&self, agent_id: i64) -> Result<DeadLetters, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT message_id, peer, reason, at FROM dead_letters WHERE agent_id = ?1
             UNION ALL
             SELECT NULL, peer, 'a packet in quarantine: ' || reason, at FROM quarantine WHERE agent_id = ?1
             ORDER BY at DESC LIMIT 500",
        )?;
        let rows = query.query_map([agent_id], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get::<_, i64>(3)?))
        })?;
        let mut dead_letters = Vec::new();
        for row in rows {
            let (message_id, peer, reason, at) = row?;
            let from = self.shown(agent_id, &peer)?;
            dead_letters.push(DeadLetter { message_id, from, reason, at: rfc3339(at) });
        }
        Ok(DeadLetters { dead_letters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guard_alone_stops_an_answer() {
        let open = Facts { max_hops: 3, pair_left: true, day_left: true, ..Facts::default() };
        assert_eq!(judge(open), Verdict::Answer);
        for silent in [
            Facts { auto: true, ..open },
            Facts { own: true, ..open },
            Facts { targeted: true, ..open },
            Facts { answers_us: true, ..open },
            Facts { answered: true, ..open },
        ] {
            assert_eq!(judge(silent), Verdict::Silent, "{silent:?}");
        }
        for refused in [
            Facts { in_chain: true, ..open },
            Facts { hops: 3, ..open },
            Facts { pair_left: false, ..open },
            Facts { day_left: false, ..open },
        ] {
            assert!(matches!(judge(refused), Verdict::Refused(_)), "{refused:?}");
        }
    }
}
