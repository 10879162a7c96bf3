//! A loop that tries again says why once, not each time.

use crate::error::MailError;

#[derive(Debug, Default)]
pub(super) struct Complaint(Option<String>);

impl Complaint {
    /// Whether this was not the last thing said.
    pub(super) fn is_new(&mut self, error: &MailError) -> bool {
        let error = Some(error.to_string());
        let new = self.0 != error;
        self.0 = error;
        new
    }

    /// It works again.
    pub(super) fn settle(&mut self) {
        self.0 = None;
    }
}
