//! The numbered steps of sending and receiving, for tests that stop at each of them.
//!
//! In production the hook is absent and a step costs one branch.

use std::fmt;
use std::sync::Arc;

use crate::error::MailError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    SendBegin = 1,
    SendStored,
    SendSealed,
    SendCommitted,
    KeyClaimed,
    PublishBefore,
    PublishAfter,
    PublishMarked,
    ReceiveFetched,
    ReceiveOpened,
    ReceiveStored,
    ReceiveCommitted,
    ReceiveAcked,
    ReceiptSealed,
    ReceiptApplied,
    InboxOffered,
    InboxAcked,
    RelayStored,
    RelayCommitted,
}

impl Step {
    pub const ALL: [Step; 19] = [
        Step::SendBegin,
        Step::SendStored,
        Step::SendSealed,
        Step::SendCommitted,
        Step::KeyClaimed,
        Step::PublishBefore,
        Step::PublishAfter,
        Step::PublishMarked,
        Step::ReceiveFetched,
        Step::ReceiveOpened,
        Step::ReceiveStored,
        Step::ReceiveCommitted,
        Step::ReceiveAcked,
        Step::ReceiptSealed,
        Step::ReceiptApplied,
        Step::InboxOffered,
        Step::InboxAcked,
        Step::RelayStored,
        Step::RelayCommitted,
    ];
}

type Hook = dyn Fn(Step) -> Result<(), MailError> + Send + Sync;

#[derive(Clone, Default)]
pub struct Steps(Option<Arc<Hook>>);

impl Steps {
    pub fn watched(hook: impl Fn(Step) -> Result<(), MailError> + Send + Sync + 'static) -> Steps {
        Steps(Some(Arc::new(hook)))
    }

    pub(crate) fn reach(&self, step: Step) -> Result<(), MailError> {
        match &self.0 {
            Some(hook) => hook(step),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("watched", &self.0.is_some()).finish()
    }
}
