//! `POST /` and `/v1/rpc`: one request in the body, one response.

use std::future::Future;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use trl_protocol::{Code, Event, Fault, Reply};
use trl_runtime::{BoxFuture, EventSink, Gone, GrantKey, Presence};

use super::access::Grant;
use super::routes::Front;
use super::{answer, body, sse};
use crate::connection::perform;
use crate::request_line::{self, Call, Refusal};

pub(crate) async fn take(
    State(front): State<Front>,
    Extension(grant): Extension<Grant>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let bytes = match body::read(body, front.body_patience).await {
        Ok(bytes) => bytes,
        Err(refusal) => return *refusal,
    };
    let call = match request_line::read(&bytes) {
        Ok(call) => call,
        Err(Refusal { id, fault }) => return answer::response(&id, &Err(fault)),
    };
    if let Err(fault) = grant.allows(&call.request) {
        return answer::with_status(StatusCode::FORBIDDEN, &call.id, &Err(fault));
    }
    if !call.request.info().rules.events.is_empty() && sse::is_wanted(&headers) {
        return sse::take(front, call, grant.key).await;
    }
    let id = call.id.clone();
    if call.request.info().rules.endless {
        return answer::response(&id, &Err(only_as_events(call.request.info().name)));
    }
    let result = undisturbed(&front, call, Unheard, grant.key.clone()).await;
    answer::to_client(&id, &result, grant.key.is_some())
}

fn only_as_events(method: &str) -> Fault {
    Fault::invalid(format!(
        "{method} sends events until the client disconnects; use it with `Accept: text/event-stream`, or over /v1/ws"
    ))
}

/// Does what was asked, to its end: a client that goes away ends nothing, and is only
/// known to be gone.
pub(crate) fn undisturbed<E: EventSink + 'static>(
    front: &Front,
    call: Call,
    mut events: E,
    grant: Option<GrantKey>,
) -> impl Future<Output = Result<Reply, Fault>> + Send + use<E> {
    let client = Client(Presence::new());
    let caller = client.0.caller(call.id_text).under(grant);
    let (runtime, phase) = (front.runtime.clone(), front.phase.clone());
    let work =
        tokio::spawn(async move { perform(&runtime, call.request, &caller, &mut events, phase).await });
    async move {
        let _client = client;
        work.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request failed");
            Err(Fault::new(Code::InternalError, "the request failed; see the daemon's log"))
        })
    }
}

/// The client of one request; dropped when its connection is.
struct Client(Presence);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Nobody asked for events.
struct Unheard;

impl EventSink for Unheard {
    fn send<'a>(&'a mut self, _: Event<'a>) -> BoxFuture<'a, Result<(), Gone>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
