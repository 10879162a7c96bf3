//! Which agent a harness session gets if it names none: the one assigned to it, to the nearest directory above its
//! project, or to everything. An assignment stays until it is removed.

use std::path::Path;

use rusqlite::{OptionalExtension, params};
use trl_protocol::Fault;
use trl_protocol::agent::{
    AssignParams, AssignScope, Assignment, Assignments, AssignmentsParams, UnassignParams, Unassigned,
};

use crate::engine::Tx;
use crate::error::MailError;

/// What an agent is assigned to: a harness session's id, or a directory; an empty key for everything.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    scope: AssignScope,
    key: String,
}

impl Target {
    fn new(
        scope: Option<AssignScope>,
        harness_session_id: Option<&str>,
        project: Option<&str>,
    ) -> Result<Target, Fault> {
        let session = harness_session_id.filter(|id| !id.is_empty());
        let project = project.filter(|dir| !dir.is_empty()).map(without_slash);
        let lacks = |what: &str| Fault::invalid(format!("this assignment needs the param `{what}`"));
        let scope = scope.unwrap_or(match (session, project) {
            (Some(_), _) => AssignScope::Session,
            (None, Some(_)) => AssignScope::Project,
            (None, None) => AssignScope::Global,
        });
        let key = match scope {
            AssignScope::Session => {
                let id = session.ok_or_else(|| lacks("harness_session_id"))?;
                if id.len() > 256 {
                    return Err(Fault::invalid("param `harness_session_id` is longer than 256 bytes"));
                }
                id.to_owned()
            }
            AssignScope::Project => {
                let dir = project.ok_or_else(|| lacks("project"))?;
                if !dir.starts_with('/') || dir.len() > 4096 {
                    let shown: String = dir.chars().take(80).collect();
                    return Err(Fault::invalid(format!("param `project`: {shown:?} is no absolute path")));
                }
                dir.to_owned()
            }
            AssignScope::Global => String::new(),
        };
        Ok(Target { scope, key })
    }
}

fn without_slash(dir: &str) -> &str {
    match dir.trim_end_matches('/') {
        "" if dir.starts_with('/') => "/",
        dir => dir,
    }
}

impl Tx<'_> {
    pub(crate) fn assign(&mut self, params: &AssignParams) -> Result<Assignment, MailError> {
        let agent = self.known_agent(&params.agent)?;
        let target =
            Target::new(params.scope, params.harness_session_id.as_deref(), params.project.as_deref())?;
        self.store_assignment(&target, agent.id)?;
        let Target { scope, key } = target;
        Ok(Assignment { agent: agent.name, scope, key: Some(key).filter(|key| !key.is_empty()) })
    }

    pub(crate) fn assign_session(&self, harness_id: &str, agent_id: i64) -> Result<(), MailError> {
        self.store_assignment(&Target { scope: AssignScope::Session, key: harness_id.to_owned() }, agent_id)
    }

    fn store_assignment(&self, target: &Target, agent_id: i64) -> Result<(), MailError> {
        self.db.execute(
            "INSERT INTO assignments (scope, key, agent_id) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET agent_id = ?3",
            params![target.scope.name(), target.key, agent_id],
        )?;
        Ok(())
    }

    pub(crate) fn unassign(&mut self, params: &UnassignParams) -> Result<Unassigned, MailError> {
        let Target { scope, key } =
            Target::new(params.scope, params.harness_session_id.as_deref(), params.project.as_deref())?;
        let removed = self
            .db
            .execute("DELETE FROM assignments WHERE scope = ?1 AND key = ?2", params![scope.name(), key])?;
        Ok(Unassigned { scope, removed: removed > 0 })
    }

    /// Those of other harness sessions are not shown.
    pub(crate) fn assignments(&self, params: &AssignmentsParams) -> Result<Assignments, MailError> {
        let own = params.harness_session_id.as_deref().unwrap_or_default();
        let mut assignments = Vec::new();
        let mut query = self.db.prepare_cached(
            "SELECT agents.name, key FROM assignments JOIN agents ON agents.id = agent_id
             WHERE scope = ?1 AND (scope != 'session' OR key = ?2) ORDER BY key",
        )?;
        for scope in AssignScope::ALL {
            let rows = query.query_map(params![scope.name(), own], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            for row in rows {
                let (agent, key) = row?;
                assignments.push(Assignment { agent, scope, key: Some(key).filter(|key| !key.is_empty()) });
            }
        }
        let effective = match self.assigned(Some(own), params.project.as_deref())? {
            Some(agent_id) => Some(self.agent_by_id(agent_id)?.name),
            None => None,
        };
        Ok(Assignments { assignments, effective })
    }

    /// The agent that a harness session in a project gets.
    pub(crate) fn assigned(
        &self,
        harness_id: Option<&str>,
        project: Option<&str>,
    ) -> Result<Option<i64>, MailError> {
        let session = harness_id.filter(|id| !id.is_empty()).map(|id| (AssignScope::Session, id));
        let above = project
            .filter(|dir| dir.starts_with('/'))
            .into_iter()
            .flat_map(|dir| Path::new(without_slash(dir)).ancestors().filter_map(Path::to_str));
        let targets = session
            .into_iter()
            .chain(above.map(|dir| (AssignScope::Project, dir)))
            .chain(std::iter::once((AssignScope::Global, "")));
        let mut query =
            self.db.prepare_cached("SELECT agent_id FROM assignments WHERE scope = ?1 AND key = ?2")?;
        for (scope, key) in targets {
            let found = query.query_row(params![scope.name(), key], |row| row.get(0)).optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_assignment_is_for() {
        let of = |scope, session, project| {
            Target::new(scope, session, project).ok().map(|target| (target.scope, target.key))
        };
        assert_eq!(of(None, Some("h"), Some("/p")), Some((AssignScope::Session, "h".to_owned())));
        assert_eq!(of(None, None, Some("/p/")), Some((AssignScope::Project, "/p".to_owned())));
        assert_eq!(of(None, Some(""), None), Some((AssignScope::Global, String::new())));
        let project = Some(AssignScope::Project);
        assert_eq!(of(project, Some("h"), Some("/")), Some((AssignScope::Project, "/".to_owned())));
        assert_eq!(of(Some(AssignScope::Session), None, Some("/p")), None);
        assert_eq!(of(project, Some("h"), None), None);
        assert_eq!(of(project, None, Some("relative")), None);
    }
}
