//! `runtime.…`: grants of this daemon.

pub(crate) mod grant;
pub(crate) mod grants;
pub(crate) mod revoke;
