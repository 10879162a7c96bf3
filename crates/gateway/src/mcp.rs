//! The Model Context Protocol: its requests become ours in `trl_mcp`; here is where they come in.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trl_mcp::{Guests, Server, Settings};
use trl_protocol::{Code, Fault, Scope};
use trl_runtime::Runtime;

use crate::connection::Phase;
use crate::http::{Grant, answer};
use crate::in_process;

/// MCP on stdin and stdout, in this process.
pub(crate) async fn serve_stdio(settings: Settings, runtime: Runtime, phase: watch::Receiver<Phase>) {
    let server = Server::new(Arc::new(in_process::client(runtime, phase.clone())), Arc::new(settings));
    if let Err(error) = trl_mcp::serve_stdio(server, Box::pin(drained(phase))).await {
        tracing::error!(%error, "MCP ended");
    }
}

/// `/mcp`, to be put behind the gate.
pub(crate) fn route(settings: Settings, runtime: Runtime, phase: watch::Receiver<Phase>) -> Router {
    let client = Arc::new(in_process::client(runtime, phase.clone()));
    let ct = CancellationToken::new();
    let ends = ct.clone();
    tokio::spawn(async move {
        drained(phase).await;
        ends.cancel();
    });
    trl_mcp::http_route(Guests::new(client, Arc::new(settings)), ct).route_layer(from_fn(may_run))
}

/// Open streams of notifications would keep the daemon from ending.
async fn drained(mut phase: watch::Receiver<Phase>) {
    // A phase that nobody can change any more is the last one.
    let _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
}

/// The tools run commands: a token that may only look has no use for them.
async fn may_run(request: Request, next: Next) -> Response {
    match request.extensions().get::<Grant>() {
        // The tools use the daemon as its user does, and know nothing of grants.
        Some(grant) if grant.scope >= Scope::Run => match grant.whole_daemon("MCP") {
            Ok(()) => next.run(request).await,
            Err(fault) => answer::refusal(StatusCode::FORBIDDEN, fault),
        },
        _ => answer::refusal(
            StatusCode::FORBIDDEN,
            Fault::new(Code::AuthFailed, "MCP needs a token of the scope run"),
        ),
    }
}
