//! The last error of a loop that retries, so that it is logged once and not each time.

use crate::error::MailError;

#[derive(Debug, Default)]
pub(super) struct RepeatedError(Option<String>);

impl RepeatedError {
    /// Whether this error differs from the last one.
    pub(super) fn is_new(&mut self, error: &MailError) -> bool {
        let error = Some(error.to_string());
        let new = self.0 != error;
        self.0 = error;
        new
    }

    /// The operation has succeeded.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}
