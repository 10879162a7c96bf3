//! What can go wrong inside, and the one way from there to a fault.

use std::path::PathBuf;

use trl_protocol::{Code, Fault};

use crate::relay::RelayError;
use crate::seal::SealError;
use crate::steps::Step;

#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("mail in {path} is owned by {holder}; stop it, or use its socket")]
    Owned { path: String, holder: String },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    #[error("the mail store failed: {0}")]
    Store(#[from] rusqlite::Error),
    #[error("{path} was written by a newer version (schema {found}, this build knows {known})")]
    Schema { path: String, found: i64, known: i64 },
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error("mail is closing")]
    Closed,
    #[error("mail needs a running event loop")]
    NoRuntime,
    #[error("stored {what} cannot be read")]
    Corrupt { what: &'static str },
    #[error("a commit failed: {0}")]
    Commit(String),
    #[error("stopped by a test at {0:?}")]
    Injected(Step),
    #[error("{0}")]
    Refused(Fault),
}

impl MailError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> MailError {
        let what = what.into();
        move |source| MailError::Io { what, source }
    }

    pub(crate) fn owned(path: PathBuf, holder: String) -> MailError {
        MailError::Owned { path: path.display().to_string(), holder }
    }
}

impl From<Fault> for MailError {
    fn from(fault: Fault) -> MailError {
        MailError::Refused(fault)
    }
}

impl From<crate::store::OwnerGone> for MailError {
    fn from(gone: crate::store::OwnerGone) -> MailError {
        match gone {
            crate::store::OwnerGone::Closed => MailError::Closed,
            crate::store::OwnerGone::Commit(why) => MailError::Commit(why),
        }
    }
}

impl From<MailError> for Fault {
    fn from(error: MailError) -> Fault {
        match error {
            MailError::Refused(fault) => fault,
            MailError::Closed => Fault::new(Code::ShuttingDown, "mail is closing"),
            MailError::Relay(error @ RelayError::NotInThisBuild) => Fault::internal(error.to_string())
                .with_details(serde_json::json!({ "reason": "relay_not_in_this_build" })),
            MailError::Relay(error) => Fault::new(Code::ResourcePressure, error.to_string()),
            error @ (MailError::Owned { .. }
            | MailError::Io { .. }
            | MailError::Store(_)
            | MailError::Schema { .. }
            | MailError::Seal(_)
            | MailError::NoRuntime
            | MailError::Corrupt { .. }
            | MailError::Commit(_)
            | MailError::Injected(_)) => Fault::internal(error.to_string()),
        }
    }
}
