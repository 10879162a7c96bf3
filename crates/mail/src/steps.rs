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
    /// Before each commit of the mail's own database, whatever it is about.
    StoreCommit,
    /// The same of the embedded relay's.
    RelayCommit,
}

impl Step {
    pub const ALL: [Step; 21] = [
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
        Step::StoreCommit,
        Step::RelayCommit,
    ];
}

type Hook = dyn Fn(Step) -> Result<(), MailError> + Send + Sync;

#[derive(Clone, Default)]
pub struct Steps(Option<Arc<Hook>>);

impl Steps {
    pub fn watched(hook: impl Fn(Step) -> Result<(), MailError> + Send + Sync + 'static) -> Steps {
        Steps(Some(Arc::new(hook)))
    }

    /// One step, for a part that knows no other.
    pub(crate) fn before(&self, step: Step) -> Before {
        Before { steps: self.clone(), step }
    }

    pub(crate) fn reach(&self, step: Step) -> Result<(), MailError> {
        match &self.0 {
            Some(hook) => hook(step),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Before {
    steps: Steps,
    step: Step,
}

impl Before {
    pub(crate) fn reach(&self) -> Result<(), MailError> {
        self.steps.reach(self.step)
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("watched", &self.0.is_some()).finish()
    }
}
