//! What is where. Everything here is behind the gate: the token is checked, and a route
//! finds the caller's grant among the request's extensions.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use tokio::sync::watch;
use trl_protocol::{Code, Fault};
use trl_runtime::Runtime;

use super::gate::{self, Gate, Guard};
use super::{answer, metrics, openapi, rpc, ws};
use crate::connection::Phase;

/// What every route can reach.
#[derive(Debug, Clone)]
pub(crate) struct Front {
    pub(crate) runtime: Runtime,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) body_patience: Duration,
}

/// `also` are routes of others, for whom the same gate stands.
pub(crate) fn router(front: Front, also: Router, gate: Gate) -> Router {
    let guard = Guard { gate: Arc::new(gate), runtime: front.runtime.clone() };
    Router::new()
        .route("/", post(rpc::take))
        .route("/v1/rpc", post(rpc::take))
        .route("/metrics", get(metrics::tell))
        .route("/openapi.json", get(openapi::tell))
        .route("/v1/ws", get(ws::upgrade))
        .route(gate::HEALTH, get(health))
        .method_not_allowed_fallback(wrong_method)
        .fallback(nothing_here)
        .with_state(front)
        .merge(also)
        // The last one added is passed first: nothing is reached around it.
        .layer(from_fn_with_state(guard, gate::check))
}

async fn health() -> Response {
    answer::of(StatusCode::OK, "application/json", "{\"ok\":true}\n")
}

async fn wrong_method(request: Request) -> Response {
    let problem = format!("{} cannot be asked with {}", request.uri().path(), request.method());
    answer::refusal(StatusCode::METHOD_NOT_ALLOWED, Fault::new(Code::MethodNotFound, problem))
}

async fn nothing_here(request: Request) -> Response {
    let shown: String = request.uri().path().chars().take(80).collect();
    let problem = format!("there is nothing at {shown}; requests go to POST /v1/rpc");
    answer::fault(Fault::new(Code::MethodNotFound, problem))
}
