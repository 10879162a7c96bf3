//! What every request passes before any route: is it meant for us, may its page ask, who asks?
//!
//! A route behind the gate finds the caller's [`Grant`] among the request's extensions.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use trl_protocol::{Code, Fault};
use trl_runtime::{GrantKey, Runtime};

use super::access::{Grant, Tokens};
use super::admission::Admission;
use super::answer;
use super::origin::Allowed;

/// The one place that tells nothing but that the daemon is there.
pub(crate) const HEALTH: &str = "/healthz";

#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) tokens: Tokens,
    pub(crate) allowed: Allowed,
}

/// The gate, and who knows the tokens that agents were granted.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) gate: Arc<Gate>,
    pub(crate) runtime: Runtime,
}

pub(crate) async fn check(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let gate = &guard.gate;
    let page = match gate.page_of(&request) {
        Ok(page) => page,
        Err(fault) => return answer::refusal(StatusCode::FORBIDDEN, fault),
    };
    let asks_first = request.method() == Method::OPTIONS
        && page.is_some()
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks_first {
        preflight()
    } else if request.uri().path() == HEALTH {
        next.run(request).await
    } else {
        match gate.grant(request.headers(), |token| guard.runtime.grant_of(token)) {
            Ok(grant) => match authenticated(request.extensions().get().cloned()).await {
                Ok(()) => {
                    request.extensions_mut().insert(grant);
                    next.run(request).await
                }
                Err(fault) => answer::fault(fault),
            },
            Err(fault) => refuse_unknown(fault),
        }
    };
    if let Some(page) = page {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

impl Gate {
    /// The page that asks, if one does and may; an error if it may not, or the request is for somebody else.
    fn page_of(&self, request: &Request) -> Result<Option<HeaderValue>, Fault> {
        let headers = request.headers();
        let said = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = said.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
        let Some(host) = host.filter(|_| headers.get_all(header::HOST).iter().count() <= 1) else {
            return Err(refused("the request does not say which host it is for (header Host)"));
        };
        if !self.allowed.host(host) {
            let shown: String = host.chars().take(80).collect();
            return Err(refused(format!(
                "this daemon does not answer to the name {shown:?}; TRL_HTTP_HOSTS can name it"
            )));
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
        match origin.to_str() {
            Ok(page) if self.allowed.origin(page, host) => Ok(Some(origin.clone())),
            _ => {
                Err(refused("pages of this origin may not use this daemon; TRL_HTTP_ORIGINS can allow them"))
            }
        }
    }

    /// `granted` knows the tokens that agents were granted.
    fn grant(
        &self,
        headers: &HeaderMap,
        granted: impl FnOnce(&[u8]) -> Option<Result<GrantKey, Fault>>,
    ) -> Result<Grant, Fault> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(first), None) = (given.next(), given.next()) else {
            return Err(refused("a token is needed: `Authorization: Bearer TOKEN`"));
        };
        let secret =
            bearer(first.as_bytes()).ok_or_else(|| refused("`Authorization: Bearer TOKEN` is expected"))?;
        if let Some(grant) = self.tokens.grant(secret) {
            return Ok(grant.clone());
        }
        match granted(secret) {
            Some(key) => key.map(Grant::under),
            None => Err(refused("this token opens nothing here")),
        }
    }
}

/// From now on the request's connection is a client's.
async fn authenticated(admission: Option<Arc<Admission>>) -> Result<(), Fault> {
    match admission {
        Some(admission) => admission.authenticated().await,
        None => Ok(()),
    }
}

/// What follows the scheme, which is written in any case.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, secret) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| secret.trim_ascii())
}

fn refused(problem: impl Into<Cow<'static, str>>) -> Fault {
    Fault::new(Code::AuthFailed, problem)
}

fn refuse_unknown(fault: Fault) -> Response {
    let mut response = answer::fault(fault);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"trl\""));
    response
}

/// A browser asks before it lets a page send a token.
fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        let scheme = super::super::origin::Scheme::Http;
        let allowed = Allowed { scheme, hosts: Vec::new(), origins: vec!["https://board.example".into()] };
        Gate { tokens: Tokens::load(Some("0123456789abcdef"), None).unwrap(), allowed }
    }

    #[test]
    fn a_page_may_ask_if_it_is_ours_or_listed() {
        for (headers, expected) in [
            (&[("host", "localhost:1")][..], Ok(None)),
            (&[("host", "localhost:1"), ("origin", "http://localhost:1")], Ok(Some("http://localhost:1"))),
            (
                &[("host", "localhost:1"), ("origin", "https://board.example")],
                Ok(Some("https://board.example")),
            ),
            (&[("host", "localhost:1"), ("origin", "https://localhost:1")], Err("of this origin")),
            (&[("host", "localhost:1"), ("origin", "http://evil.example")], Err("of this origin")),
            (&[("host", "localhost:1"), ("origin", "\u{e9}")], Err("of this origin")),
            (&[("host", "evil.example")], Err("\"evil.example\"")),
            (&[("host", "localhost"), ("host", "localhost")], Err("which host")),
            (&[], Err("which host")),
        ] {
            let mut request = Request::builder().uri("/v1/rpc");
            for (name, value) in headers {
                request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let page = gate().page_of(&request.body(Body::empty()).unwrap());
            match (page, expected) {
                (Ok(page), Ok(expected)) => {
                    assert_eq!(page.as_ref().map(|page| page.to_str().unwrap()), expected)
                }
                (Err(fault), Err(expected)) => {
                    assert!(fault.message.contains(expected), "{headers:?}: {fault}")
                }
                (page, _) => panic!("{headers:?}: {page:?}"),
            }
        }
    }

    #[test]
    fn one_token_is_needed_and_no_second_one() {
        let right = "Bearer 0123456789abcdef";
        for (given, fine) in [
            (&[right][..], true),
            (&[], false),
            (&[right, right], false),
            (&["Bearer 0123456789abcdeX"], false),
            (&["0123456789abcdef"], false),
            (&["Bearer "], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in given {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            assert_eq!(gate().grant(&headers, |_| None).is_ok(), fine, "{given:?}");
        }
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER  abc "), Some(&b"abc"[..]));
        for other in [&b"Basic abc"[..], b"Bearer", b"Bearerabc", b"abc", b""] {
            assert_eq!(bearer(other), None, "{other:?}");
        }
    }
}
