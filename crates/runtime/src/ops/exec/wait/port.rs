//! A port that takes connections, or answers a request. The kernel tells nobody when a port
//! is opened, so it is tried, at first often, then less so; the command's end is an event.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use trl_protocol::Fault;
use trl_protocol::exec::{Matched, PortUntil};

use super::{Came, end};
use crate::session::Session;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// One try: a server that takes connections may take its time to answer the first.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Probe {
    port: u16,
    host: Option<String>,
    http_path: Option<String>,
}

impl Probe {
    pub(super) fn new(until: PortUntil) -> Probe {
        let PortUntil { port, host, http_path } = until;
        Probe { port, host, http_path }
    }

    async fn opens(&self) -> Matched {
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(Some(matched)) = tokio::time::timeout(PATIENCE, self.attempt()).await {
                return matched;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&self) -> Option<Matched> {
        for address in self.addresses().await {
            let Ok(mut stream) = TcpStream::connect(address).await else { continue };
            let host = self.host.clone().unwrap_or_else(|| address.ip().to_string());
            let Some(path) = &self.http_path else {
                return Some(Matched::Port { port: self.port, host, http_status: None });
            };
            if let Some(status) = ask(&mut stream, address, path).await.filter(|status| *status < 400) {
                return Some(Matched::Port { port: self.port, host, http_status: Some(status) });
            }
        }
        None
    }

    /// Servers of this machine may listen on either of its own addresses.
    async fn addresses(&self) -> Vec<SocketAddr> {
        match &self.host {
            None => {
                vec![([127, 0, 0, 1], self.port).into(), (std::net::Ipv6Addr::LOCALHOST, self.port).into()]
            }
            Some(host) => {
                lookup_host((host.as_str(), self.port)).await.map(Iterator::collect).unwrap_or_default()
            }
        }
    }
}

/// The status of the answer; only its first line is read.
async fn ask(stream: &mut TcpStream, address: SocketAddr, path: &str) -> Option<u16> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: trl\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut head = Vec::new();
    while head.len() < 12 && stream.read_buf(&mut head).await.ok()? > 0 {}
    let line = String::from_utf8_lossy(&head);
    line.strip_prefix("HTTP/1.").and_then(|line| line.get(2..5)).and_then(|status| status.parse().ok())
}

pub(super) async fn wait(session: &Session, exec: u64, probe: Probe) -> Result<Came, Fault> {
    tokio::select! {
        biased;
        over = end(session, exec) => over.map(|()| Came::Over),
        matched = probe.opens() => Ok(Came::Matched(matched)),
    }
}
