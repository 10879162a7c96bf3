//! HTTP: the same requests over TCP, for whoever has a token.

mod access;
mod admission;
pub(crate) mod answer;
mod body;
mod gate;
mod metrics;
mod openapi;
mod origin;
mod patience;
mod routes;
mod rpc;
mod sse;
mod tls;
mod ws;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use trl_runtime::Runtime;

pub(crate) use access::Grant;
pub use access::{TokenError, Tokens};
pub use admission::Limits as UnauthenticatedLimits;
pub use tls::{TlsError, TlsFiles};

use crate::connection::Phase;
use crate::unix::LOOK_AGAIN;
use admission::{Admission, Admissions};
use gate::Gate;
use origin::{Allowed, Scheme};
pub use patience::Patience;
use patience::Patient;
use routes::Front;

/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// Before accepting again when the process is out of descriptors: nothing tells when one is free.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Where HTTP is served, and for whom.
#[derive(Debug)]
pub struct HttpConfig {
    /// An address and a port; port 0 is any free one.
    pub address: String,
    pub tokens: Tokens,
    /// Names beside addresses and `localhost` that requests may be for.
    pub hosts: Vec<String>,
    /// Origins whose pages may use this daemon; `*` is any.
    pub origins: Vec<String>,
    pub tls: Option<TlsFiles>,
    pub patience: Patience,
    pub unauthenticated: UnauthenticatedLimits,
}

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("HTTP cannot be served at {address}: {error}")]
    Bind { address: String, error: io::Error },
    #[error("HTTP is not served without a token")]
    NoToken,
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A bound address.
pub(crate) struct Listener {
    listener: TcpListener,
    gate: Gate,
    tls: Option<TlsAcceptor>,
    patience: Patience,
    unauthenticated: UnauthenticatedLimits,
    pub(crate) address: SocketAddr,
    /// The certificate chain (PEM), if it speaks TLS.
    pub(crate) certificate: Option<String>,
}

impl Listener {
    /// `patience`: how long a killed daemon's address may still be taken.
    pub(crate) async fn bind(config: HttpConfig, patience: Duration) -> Result<Listener, HttpError> {
        let HttpConfig { address, tokens, hosts, origins, tls, patience: with_clients, unauthenticated } =
            config;
        if tokens.is_empty() {
            return Err(HttpError::NoToken);
        }
        let certificate = tls.as_ref().map(tls::chain_text).transpose()?;
        let tls = tls.as_ref().map(tls::acceptor).transpose()?;
        let failed = |error| HttpError::Bind { address: address.clone(), error };
        let begun = Instant::now();
        let listener = loop {
            match TcpListener::bind(&address).await {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && begun.elapsed() < patience => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                other => break other.map_err(failed)?,
            }
        };
        let bound = listener.local_addr().map_err(failed)?;
        if tls.is_none() && !bound.ip().is_loopback() {
            tracing::warn!(address = %bound, "HTTP is open to other machines, and what it carries is not encrypted");
        }
        let scheme = if tls.is_some() { Scheme::Https } else { Scheme::Http };
        let gate = Gate { tokens, allowed: Allowed { scheme, hosts, origins } };
        let patience = with_clients;
        Ok(Listener { listener, gate, tls, patience, unauthenticated, address: bound, certificate })
    }

    pub(crate) async fn accept_all(
        self,
        runtime: Runtime,
        clients: Arc<Semaphore>,
        most: u32,
        phase: watch::Receiver<Phase>,
        also: Router,
    ) {
        let Listener { listener, gate, tls, patience, unauthenticated, .. } = self;
        let front = Front { runtime: runtime.clone(), phase: phase.clone(), body_patience: patience.body };
        let ways = Ways { tls, patience, router: routes::router(front, also, gate) };
        let admissions = Arc::new(Admissions::new(runtime, clients, most, unauthenticated));
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let admission = admissions.admit(from.ip()).await;
                    tokio::spawn(begin(stream, ways.clone(), Arc::new(admission), phase.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                }
            }
        }
    }
}

/// What every connection goes through.
#[derive(Clone)]
struct Ways {
    tls: Option<TlsAcceptor>,
    patience: Patience,
    router: Router,
}

async fn begin(stream: TcpStream, ways: Ways, admission: Arc<Admission>, phase: watch::Receiver<Phase>) {
    // Small answers go out at once; without it they are only later.
    let _ = stream.set_nodelay(true);
    let Ways { tls, patience, router } = ways;
    let stream = Patient::new(stream, patience.stall);
    let waiting = Arc::clone(&admission);
    let served = async {
        let Some(tls) = tls else { return serve(stream, router, patience.head, admission, phase).await };
        match tokio::time::timeout(patience.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve(stream, router, patience.head, admission, phase).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    };
    tokio::select! {
        () = served => {}
        () = waiting.refused() => tracing::debug!("a connection without a token was closed"),
    }
}

/// One connection, request after request. `admission` is kept by whatever outlives it.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    head: Duration,
    admission: Arc<Admission>,
    mut phase: watch::Receiver<Phase>,
) {
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Arc::clone(&admission));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let early = tokio::select! {
        served = connection.as_mut() => Some(served),
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => None,
    };
    let served = match early {
        Some(served) => served,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command line refuses it sooner, and says what to do.
    #[tokio::test]
    async fn nothing_is_served_without_a_token() {
        let config = HttpConfig {
            address: "127.0.0.1:0".to_owned(),
            tokens: Tokens::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            patience: Patience::default(),
            unauthenticated: UnauthenticatedLimits::default(),
        };
        assert!(matches!(Listener::bind(config, Duration::ZERO).await, Err(HttpError::NoToken)));
    }
}
