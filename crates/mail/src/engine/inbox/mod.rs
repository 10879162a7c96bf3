//! What readers get: leases, replies that are waited for, expiry, and how long mail is kept.

pub(crate) mod expiry;
pub(crate) mod reading;
pub(crate) mod replies;
pub(crate) mod retention;
