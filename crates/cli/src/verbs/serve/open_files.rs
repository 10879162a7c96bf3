//! How many files the daemon may have open: every session and every client takes some.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for a thousand sessions and as many clients.
const ENOUGH: u64 = 16 * 1024;

/// Raises the limit as far as is allowed and of use; tells what it was, for the sessions to have.
pub(super) fn take_what_is_allowed() -> Option<u64> {
    static USUAL: OnceLock<Option<u64>> = OnceLock::new();
    *USUAL.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile);
        let most = limit.maximum.unwrap_or(u64::MAX).min(ENOUGH);
        let usual = limit.current.filter(|usual| *usual < most)?;
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
        raised.is_ok().then_some(usual)
    })
}
