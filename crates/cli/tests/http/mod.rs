//! The HTTP transport: access, streams, TLS, its documentation and its metrics.

mod access;
mod docs;
pub(crate) mod grants;
mod metrics;
mod scopes;
mod streams;
mod tls;
mod unauthenticated;
