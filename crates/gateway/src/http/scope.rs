//! What a token may do: look, work, or rule.

use trl_protocol::Request;

/// Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Look at sessions, commands and their output.
    Read,
    /// Make sessions, run commands, end them; speak for agents.
    Run,
    /// End the daemon.
    Admin,
}

impl Scope {
    pub(crate) fn parse(word: &str) -> Option<Scope> {
        match word {
            "read" => Some(Scope::Read),
            "run" => Some(Scope::Run),
            "admin" => Some(Scope::Admin),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Admin => "admin",
        }
    }

    /// What a request needs.
    pub(crate) fn of(request: &Request) -> Scope {
        match request {
            Request::SessionList(_)
            | Request::SessionInfo(_)
            | Request::ExecAttach(_)
            | Request::ExecOutput(_)
            | Request::ExecList(_)
            | Request::ExecInfo(_)
            | Request::ExecScreen(_)
            | Request::SystemPing(_)
            | Request::SystemStats(_)
            | Request::SystemInfo(_)
            | Request::SystemRuntimes(_)
            | Request::EventsSubscribe(_)
            | Request::AgentList(_) => Scope::Read,
            // Whoever tries ports reaches further than this daemon.
            Request::ExecWait(params) => match params.until.as_ref().and_then(|until| until.port.as_ref()) {
                Some(_) => Scope::Run,
                None => Scope::Read,
            },
            Request::SessionAttach(params) if params.read_only => Scope::Read,
            Request::SessionCreate(_)
            | Request::SessionDestroy(_)
            | Request::SessionRestart(_)
            | Request::SessionBind(_)
            | Request::SessionAttach(_)
            | Request::SessionInput(_)
            | Request::SessionResize(_)
            | Request::ExecRun(_)
            | Request::ExecStream(_)
            | Request::ExecStart(_)
            | Request::ExecWrite(_)
            | Request::ExecResize(_)
            | Request::ExecCancel(_)
            | Request::ExecBind(_)
            | Request::AgentCreate(_)
            | Request::AgentUse(_)
            | Request::AgentWhoami(_)
            | Request::AgentSessions(_)
            | Request::AgentHeartbeat(_)
            | Request::AgentRelease(_)
            | Request::MailSend(_)
            | Request::MailStatus(_)
            | Request::MailInbox(_)
            | Request::MailCheckReply(_)
            | Request::MailAwaitReply(_)
            | Request::MailSendAndWait(_)
            | Request::MailReply(_)
            | Request::MailSubscribe(_)
            | Request::MailHeld(_)
            | Request::MailDeadLetters(_)
            | Request::MailAutorespond(_)
            | Request::MailReset(_)
            | Request::ContactRequest(_)
            | Request::ContactAccept(_)
            | Request::ContactDecline(_)
            | Request::ContactBlock(_)
            | Request::ContactList(_)
            | Request::ContactPresence(_) => Scope::Run,
            Request::SystemShutdown(_) => Scope::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_includes_the_ones_before() {
        assert!(Scope::Read < Scope::Run && Scope::Run < Scope::Admin);
        for scope in [Scope::Read, Scope::Run, Scope::Admin] {
            assert_eq!(Scope::parse(scope.name()), Some(scope));
        }
        assert_eq!(Scope::parse("root"), None);
    }

    #[test]
    fn only_looking_is_read() {
        let of = |method: &str, params| Scope::of(&Request::parse(method, params).unwrap());
        assert_eq!(of("session.list", serde_json::json!({})), Scope::Read);
        assert_eq!(of("session.create", serde_json::json!({})), Scope::Run);
        let attach = |read_only| serde_json::json!({"session_id": "s", "read_only": read_only});
        assert_eq!(of("session.attach", attach(true)), Scope::Read);
        assert_eq!(of("session.attach", attach(false)), Scope::Run);
        assert_eq!(of("system.shutdown", serde_json::json!({})), Scope::Admin);
    }
}
