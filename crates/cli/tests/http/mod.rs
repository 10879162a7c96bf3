//! The HTTP transport: access, streams, TLS, its documentation and its metrics.

mod access;
mod docs;
mod grants;
mod metrics;
mod scopes;
mod streams;
mod tls;
mod unauthenticated;
