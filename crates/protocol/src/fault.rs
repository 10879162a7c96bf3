//! What can go wrong, as a code that programs act on and a message that people read.
//!
//! One table maps a code to its HTTP status and to the exit status of the command line.

use std::borrow::Cow;
use std::fmt;
use std::io::ErrorKind;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($name:ident = $wire:literal, $http:literal, $exit:literal;)*) => {
        /// The fixed set of error codes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Code { $(#[serde(rename = $wire)] $name,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$name,)*];
            pub fn as_str(self) -> &'static str { match self { $(Code::$name => $wire,)* } }
            pub fn http_status(self) -> u16 { match self { $(Code::$name => $http,)* } }
            /// Exit status of `trl` when a call ends with this code.
            pub fn exit_status(self) -> u8 { match self { $(Code::$name => $exit,)* } }
        }
    };
}

codes! {
    ParseError = "PARSE_ERROR", 400, 65;
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", 413, 65;
    MethodNotFound = "METHOD_NOT_FOUND", 404, 64;
    InvalidParams = "INVALID_PARAMS", 400, 64;
    AuthFailed = "AUTH_FAILED", 401, 77;
    SessionNotFound = "SESSION_NOT_FOUND", 404, 66;
    SessionBusy = "SESSION_BUSY", 409, 75;
    SessionTerminated = "SESSION_TERMINATED", 410, 66;
    MaxSessionsReached = "MAX_SESSIONS_REACHED", 429, 75;
    SessionLimitExceeded = "SESSION_LIMIT_EXCEEDED", 429, 75;
    ResourcePressure = "RESOURCE_PRESSURE", 503, 75;
    ExecNotFound = "EXEC_NOT_FOUND", 404, 66;
    CommandFailed = "COMMAND_FAILED", 422, 1;
    CommandTimeout = "COMMAND_TIMEOUT", 408, 124;
    WaitTimeout = "WAIT_TIMEOUT", 408, 124;
    AgentNotFound = "AGENT_NOT_FOUND", 404, 67;
    LabelTaken = "LABEL_TAKEN", 409, 75;
    NameTaken = "NAME_TAKEN", 409, 75;
    ContactRequired = "CONTACT_REQUIRED", 403, 77;
    MessageNotFound = "MESSAGE_NOT_FOUND", 404, 66;
    RuntimeNotFound = "RUNTIME_NOT_FOUND", 404, 68;
    RuntimeUnavailable = "RUNTIME_UNAVAILABLE", 503, 69;
    FileNotFound = "FILE_NOT_FOUND", 404, 66;
    FileExists = "FILE_EXISTS", 409, 73;
    FileDenied = "FILE_DENIED", 403, 77;
    FileConflict = "FILE_CONFLICT", 409, 75;
    IsolationUnavailable = "ISOLATION_UNAVAILABLE", 422, 69;
    ShuttingDown = "SHUTTING_DOWN", 503, 69;
    InternalError = "INTERNAL_ERROR", 500, 70;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The `error` object of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    pub code: Code,
    /// What was wrong, with the offending value, and what to do.
    pub message: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

/// Too many open files, in the system and in the process: the same on every system we build for.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

impl Fault {
    pub fn schema() -> schemars::Schema {
        crate::written_schema::<Fault>()
    }

    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Fault { code, message: message.into(), details: None }
    }

    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Fault::new(Code::InvalidParams, message)
    }

    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Fault::new(Code::InternalError, message)
    }

    /// Something that the system refused. What it has run out of is told, and how it gets more.
    pub fn refused_by_system(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let remedy = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some disk space",
            ErrorKind::ReadOnlyFilesystem => "make the file system writable",
            ErrorKind::OutOfMemory => "free some memory",
            // What a fork says when there may be no more processes.
            ErrorKind::WouldBlock => {
                "end some processes, or raise the limit on them (`ulimit -u`, or the control group's)"
            }
            _ if matches!(error.raw_os_error(), Some(ENFILE | EMFILE)) => {
                "end some sessions, or start the daemon with a larger limit on descriptors (`ulimit -n`)"
            }
            // A variable may have 128 KiB, all of them a quarter of what a stack may have.
            ErrorKind::ArgumentListTooLong => {
                let message = format!("{what}: {error}; make the environment or one of its values smaller");
                return Fault::new(Code::PayloadTooLarge, message);
            }
            _ => return Fault::internal(format!("{what}: {error}")),
        };
        Fault::new(Code::ResourcePressure, format!("{what}: {error}; {remedy}, then try again"))
    }

    /// The same where whatever it is may be over soon, and nothing of the session is lost meanwhile.
    pub fn refused_for_now(what: impl fmt::Display, error: &std::io::Error) -> Self {
        let fault = Fault::refused_by_system(what, error);
        match fault.code {
            Code::InternalError => Fault { code: Code::ResourcePressure, ..fault },
            _ => fault,
        }
    }

    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_run_out_is_told_with_a_remedy() {
        for (errno, code, word) in [
            (24, Code::ResourcePressure, "ulimit -n"),
            (23, Code::ResourcePressure, "ulimit -n"),
            (12, Code::ResourcePressure, "memory"),
            (28, Code::ResourcePressure, "disk"),
            (30, Code::ResourcePressure, "writable"),
            (7, Code::PayloadTooLarge, "environment"),
            (2, Code::InternalError, "it failed"),
        ] {
            let fault = Fault::refused_by_system("it failed", &std::io::Error::from_raw_os_error(errno));
            assert_eq!(fault.code, code, "{}", fault.message);
            assert!(fault.message.contains(word), "{}", fault.message);
        }
        let passing = Fault::refused_for_now("it failed", &std::io::Error::from_raw_os_error(2));
        assert_eq!(passing.code, Code::ResourcePressure);
    }
}
