//! Responses in HTTP: the line protocol's own, with the status that its table gives the code.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use trl_protocol::{Code, Fault, Reply};

use crate::written;

/// The one response to a request. `id` is JSON.
pub(crate) fn response(id: &str, result: &Result<Reply, Fault>) -> Response {
    let status = match result {
        Ok(_) => StatusCode::OK,
        Err(fault) => status_of(fault.code),
    };
    with_status(status, id, result)
}

/// The same for a client that may be limited by a grant: who it is was known when the grant refused, so it is forbidden
/// rather than unauthorized.
pub(crate) fn to_client(id: &str, result: &Result<Reply, Fault>, under_grant: bool) -> Response {
    match result {
        Err(fault) if under_grant && fault.code == Code::AuthFailed => {
            with_status(StatusCode::FORBIDDEN, id, result)
        }
        _ => response(id, result),
    }
}

/// A refusal of what never became a request.
pub(crate) fn refusal(status: StatusCode, fault: Fault) -> Response {
    with_status(status, "null", &Err(fault))
}

/// A refusal with the status of its code.
pub(crate) fn fault(fault: Fault) -> Response {
    refusal(status_of(fault.code), fault)
}

pub(crate) fn status_of(code: Code) -> StatusCode {
    StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub(crate) fn with_status(status: StatusCode, id: &str, result: &Result<Reply, Fault>) -> Response {
    let mut line = Vec::new();
    written::put_response(&mut line, id, result);
    of(status, "application/json", line)
}

pub(crate) fn of(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
