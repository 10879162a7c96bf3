//! MCP on stdin and stdout: one client, which is gone when stdin ends.

use std::pin::Pin;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// Why there was no conversation.
#[derive(Debug)]
pub struct StdioError(String);

impl std::fmt::Display for StdioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StdioError {}

/// Serves until stdin ends or `shutdown` resolves. Nothing but MCP is written to stdout.
pub fn serve_stdio(
    server: Server,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
) -> Pin<Box<dyn Future<Output = Result<(), StdioError>> + Send>> {
    Box::pin(serve_until(server, shutdown))
}

async fn serve_until(server: Server, shutdown: impl Future<Output = ()>) -> Result<(), StdioError> {
    let leaves = server.clone();
    let served = serve(server, shutdown).await;
    leaves.leave().await;
    served
}

async fn serve(server: Server, shutdown: impl Future<Output = ()>) -> Result<(), StdioError> {
    let ct = CancellationToken::new();
    let beside = server.clone();
    let serving = async {
        let running = match server.serve_with_ct(stdio_pipes(), ct.clone()).await {
            Ok(running) => running,
            // Gone before it said anything: that is its right.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                return Ok(());
            }
            Err(error) => return Err(StdioError(error.to_string())),
        };
        let client = running.peer().peer_info().map(|info| info.client_info.name.clone());
        tokio::select! {
            ended = running.waiting() => ended.map(drop).map_err(|error| StdioError(error.to_string())),
            never = beside.beside_calls(client.as_deref()) => match never {},
        }
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = &mut serving => return served,
        () = shutdown => ct.cancel(),
    }
    serving.await
}
