//! How a verb fails: a code for programs, words for people, an exit status for shells.

use serde::Serialize;
use serde_json::Value;
use trl_client::Error as ClientError;
use trl_protocol::{Code, Fault};

use crate::config::ConfigError;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// From `sysexits.h`, where [`Code`] has no say.
const USAGE: u8 = 64;
const UNAVAILABLE: u8 = 69;
const OS_ERROR: u8 = 71;
const TRY_AGAIN: u8 = 75;
const CONFIG: u8 = 78;
/// What a shell reports of a program that SIGPIPE ended.
pub(crate) const CLOSED_PIPE: u8 = 128 + 13;

/// And of one that Ctrl-C ended.
const INTERRUPTED: u8 = 128 + 2;

#[derive(Debug)]
pub(crate) struct Failure {
    /// `None`: whoever read our output has left, and wants to hear nothing more.
    said: Option<ErrorText>,
    pub(crate) status: u8,
}

#[derive(Debug, Serialize)]
struct ErrorText {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

impl Failure {
    fn new(code: &str, status: u8, message: impl Into<String>) -> Failure {
        let said =
            ErrorText { code: code.to_owned(), message: message.into(), hints: Vec::new(), details: None };
        Failure { said: Some(said), status }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new("USAGE", USAGE, message)
    }

    /// The system did not let us.
    pub(crate) fn system(doing: &str, error: impl std::fmt::Display) -> Failure {
        Failure::new("SYSTEM", OS_ERROR, format!("{doing}: {error}"))
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Failure {
        Failure::new("UNAVAILABLE", UNAVAILABLE, message)
    }

    /// The settings cannot be used.
    pub(crate) fn config(message: impl Into<String>) -> Failure {
        Failure::new("CONFIG", CONFIG, message)
    }

    pub(crate) fn closed_pipe() -> Failure {
        Failure { said: None, status: CLOSED_PIPE }
    }

    /// The person left; there is nothing to explain.
    pub(crate) fn interrupted() -> Failure {
        Failure { said: None, status: INTERRUPTED }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        if let Some(said) = &mut self.said {
            said.hints.push(hint.into());
        }
        self
    }

    pub(crate) fn message(&self) -> &str {
        self.said.as_ref().map_or("", |said| said.message.as_str())
    }

    pub(crate) fn hints(&self) -> &[String] {
        self.said.as_ref().map_or(&[], |said| said.hints.as_slice())
    }

    /// Whether it is the reader of our output that is gone.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.said.is_none() && self.status == CLOSED_PIPE
    }

    /// Whether the same may go well later.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.status, UNAVAILABLE | TRY_AGAIN)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.said.is_none()
    }

    /// As the wire has it: `{"ok":false,"error":{…}}`.
    pub(crate) fn to_json(&self) -> Option<impl Serialize + '_> {
        self.said.as_ref().map(|error| Answer { ok: false, error })
    }
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    ok: bool,
    error: &'a ErrorText,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        let mut failure = Failure::new(fault.code.as_str(), fault.code.exit_status(), fault.message);
        if let Some(said) = &mut failure.said {
            said.details = fault.details;
            said.hints.extend(remedy(fault.code).map(str::to_owned));
        }
        failure
    }
}

/// What a person at a prompt can do; the message itself is for every client.
fn remedy(code: Code) -> Option<&'static str> {
    match code {
        Code::SessionNotFound | Code::SessionTerminated => Some("`trl ls` shows the sessions there are"),
        Code::ExecNotFound => Some("`trl info SESSION` shows a session's last commands"),
        Code::SessionBusy => Some("wait for it with --wait, end it with `trl cancel`, or use --new"),
        Code::MaxSessionsReached => Some("end some with `trl kill`, or raise TRL_MAX_SESSIONS"),
        Code::MethodNotFound => Some("the daemon may be older than this client: `trl restart` replaces it"),
        Code::AgentNotFound => {
            Some("`trl agent list` shows the agents there are, `trl agent create NAME` makes one")
        }
        Code::RuntimeNotFound => Some("`trl runtimes` shows where sessions can run"),
        Code::ShuttingDown => Some("try again in a moment"),
        Code::InternalError => Some("`trl doctor` looks at what may be wrong"),
        Code::ParseError
        | Code::PayloadTooLarge
        | Code::InvalidParams
        | Code::AuthFailed
        | Code::SessionLimitExceeded
        | Code::ResourcePressure
        | Code::CommandFailed
        | Code::CommandTimeout
        | Code::WaitTimeout
        | Code::LabelTaken
        | Code::NameTaken
        | Code::ContactRequired
        | Code::MessageNotFound
        | Code::RuntimeUnavailable
        | Code::FileNotFound
        | Code::FileExists
        | Code::FileDenied
        | Code::FileConflict
        | Code::IsolationUnavailable => None,
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let help = error.help();
        match error {
            ClientError::Fault(fault) => Failure::from(fault),
            other => {
                let failure = Failure::unavailable(other.to_string());
                help.into_iter().fold(failure, Failure::hint)
            }
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        let failure = Failure::config(error.to_string());
        error.help().into_iter().fold(failure, Failure::hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_fault_keeps_its_code_its_status_and_its_details() {
        let fault = Fault::new(Code::SessionBusy, "busy").with_details(json!({"exec_id": "e"}));
        let failure = Failure::from(fault);
        assert_eq!(failure.status, 75);
        let json = serde_json::to_string(&failure.to_json()).unwrap();
        assert!(json.starts_with(
            r#"{"ok":false,"error":{"code":"SESSION_BUSY","message":"busy","details":{"exec_id":"e"},"hints":["#
        ));
        assert!(json.contains("--wait"));
    }

    #[test]
    fn a_closed_pipe_says_nothing() {
        let failure = Failure::closed_pipe();
        assert!(failure.is_quiet() && failure.to_json().is_none());
        assert_eq!(failure.status, 141);
    }
}
