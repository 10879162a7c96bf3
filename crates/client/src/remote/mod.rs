//! A daemon on another machine: the line protocol over its WebSocket, `GET /v1/ws`.
//!
//! Each connection is a pair of Unix sockets with a task behind it that carries lines to the
//! daemon and back. The rest of the client cannot tell it from the socket of this machine, so what it
//! does about cut connections and restarted daemons holds here too.

mod address;
mod pump;
mod tls;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};

pub use address::{Address, AddressError};

/// How long a daemon may take to accept a connection, TLS and WebSocket included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes connections to one daemon on another machine.
pub trait Dial: fmt::Debug + Send + Sync {
    /// A stream of lines. `again`: a request under way has lost its connection, so that it is worth
    /// trying for longer.
    fn dial(&self, again: bool) -> Pin<Box<dyn Future<Output = Result<UnixStream, DialError>> + Send + '_>>;
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// It may work later.
    #[error("{0}")]
    Unreachable(String),
    /// It will not work until somebody changes something.
    #[error("{0}")]
    Refused(String),
    /// The token opens nothing there, or not any more.
    #[error("{0}")]
    Denied(String),
}

/// What it takes to connect to a daemon.
#[derive(Clone)]
pub struct RemoteAccess {
    pub address: Address,
    pub token: String,
    /// Certificate authorities in PEM; without them, the system's.
    pub ca: Option<String>,
}

impl fmt::Debug for RemoteAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RemoteAccess { address, token: _, ca: _ } = self;
        f.debug_struct("RemoteAccess").field("address", address).finish_non_exhaustive()
    }
}

/// Opens one connection.
pub async fn open(access: &RemoteAccess) -> Result<UnixStream, DialError> {
    let address = &access.address;
    match timeout(CONNECT_TIMEOUT, connect(access)).await {
        Ok(opened) => opened,
        Err(_) => Err(DialError::Unreachable(format!(
            "{address} does not answer within {} s",
            CONNECT_TIMEOUT.as_secs()
        ))),
    }
}

async fn connect(access: &RemoteAccess) -> Result<UnixStream, DialError> {
    let RemoteAccess { address, ca, .. } = access;
    let tcp = TcpStream::connect((address.host(), address.port()))
        .await
        .map_err(|error| DialError::Unreachable(format!("{address}: {error}")))?;
    // Requests are small, and somebody waits for each.
    tcp.set_nodelay(true).ok();
    match address.is_tls() {
        true => upgrade(access, tls::connect(address, ca.as_deref(), tcp).await?).await,
        false => upgrade(access, tcp).await,
    }
}

async fn upgrade<S>(access: &RemoteAccess, stream: S) -> Result<UnixStream, DialError>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let address = &access.address;
    let malformed = |what: &str| DialError::Refused(format!("{address}: {what}"));
    let mut request =
        address.web_socket().into_client_request().map_err(|error| malformed(&error.to_string()))?;
    let mut token = HeaderValue::try_from(format!("Bearer {}", access.token))
        .map_err(|_| malformed("the token has characters that a header cannot carry"))?;
    token.set_sensitive(true);
    request.headers_mut().insert(header::AUTHORIZATION, token);
    let (socket, _) = tokio_tungstenite::client_async_with_config(request, stream, Some(pump::limits()))
        .await
        .map_err(|error| refusal(address, error))?;
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| DialError::Unreachable(format!("no socket pair: {error}")))?;
    tokio::spawn(pump::carry(socket, theirs));
    Ok(ours)
}

/// What the other side says to a request for a WebSocket.
fn refusal(address: &Address, error: tungstenite::Error) -> DialError {
    let tungstenite::Error::Http(response) = error else {
        return DialError::Unreachable(format!("{address}: {error}"));
    };
    let status = response.status();
    let body = response.body().as_deref().unwrap_or_default();
    let said = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|body| body["error"]["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| status.to_string());
    match status {
        StatusCode::UNAUTHORIZED => {
            DialError::Denied(format!("the daemon at {address} refuses the token: {said}"))
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            DialError::Unreachable(format!("the daemon at {address} cannot take a connection now: {said}"))
        }
        _ => DialError::Refused(format!(
            "{address} is not the HTTP transport of a trl daemon, or refuses this client: {said}"
        )),
    }
}
