//! What went wrong, as a fault: the daemon's own, or ours on the way to it.

use trl_client::Error;
use trl_protocol::{Code, Fault};

use crate::wording;

/// A fault keeps its code; what happened on the way to the daemon is told in words.
pub(crate) fn of(error: Error) -> Fault {
    match error {
        Error::Fault(fault) => Fault { message: wording::of_tools(&fault.message).into(), ..fault },
        Error::OtherRuntime { .. } | Error::OtherShell { .. } => Fault::invalid(error.to_string()),
        other => {
            let help = other.help().map(|help| format!("; {help}")).unwrap_or_default();
            Fault::new(Code::InternalError, format!("{other}{help}"))
        }
    }
}
