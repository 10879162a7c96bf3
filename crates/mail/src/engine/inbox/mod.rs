//! What readers get: leases, notices of what is new, replies that are waited for, expiry, and how long mail is kept.

pub(crate) mod expiry;
pub(crate) mod notices;
pub(crate) mod reading;
pub(crate) mod replies;
pub(crate) mod retention;
