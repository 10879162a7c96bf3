//! A port that takes connections, or answers a request. The kernel tells nobody when a port
//! is opened, so it is tried, at first often, then less so; the command's end is an event.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use trl_protocol::Fault;
use trl_protocol::exec::{Matched, PortUntil};

use super::{Came, bad, end, own_network};
use crate::session::Session;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Between requests: each is work for the server, and a line in its log.
const FIRST_PAUSE_OF_REQUESTS: Duration = Duration::from_millis(100);
const LONGEST_PAUSE_OF_REQUESTS: Duration = Duration::from_secs(2);
/// How much of an answer is read, so that the server can send it to its end.
const MOST_OF_ANSWER: usize = 1024 * 1024;
/// How long the rest of an answer is waited for.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);
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
        let mut pause_of_requests = FIRST_PAUSE_OF_REQUESTS;
        loop {
            let mut asked = false;
            if let Ok(Some(matched)) = tokio::time::timeout(PATIENCE, self.attempt(&mut asked)).await {
                return matched;
            }
            // A port that is closed costs nobody anything; a server that answers is asked seldom.
            if asked {
                tokio::time::sleep(pause_of_requests).await;
                pause_of_requests = (pause_of_requests * 2).min(LONGEST_PAUSE_OF_REQUESTS);
            } else {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// In a network of the session's own. Nobody outside can ask a server there, or reach another one.
    async fn opens_inside(&self, session: &Arc<Session>) -> Result<Matched, Fault> {
        if self.http_path.is_some() {
            return Err(bad(
                "until.port.http_path",
                "the session has a network of its own; wait for the port alone",
            ));
        }
        let is_own =
            |host: &String| host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if self.host.as_ref().is_some_and(|host| !is_own(host)) {
            return Err(bad(
                "until.port.host",
                "the session has a network of its own, with loopback addresses only",
            ));
        }
        let mut pause = FIRST_PAUSE;
        loop {
            let shell = session.info().await?.pid;
            let found = shell.map(|pid| own_network::listeners(pid, self.port)).unwrap_or_default();
            if let Some(address) = found.first() {
                let host = self.host.clone().unwrap_or_else(|| address.to_string());
                return Ok(Matched::Port { port: self.port, host, http_status: None });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// `asked` becomes true if a server was there to be asked.
    async fn attempt(&self, asked: &mut bool) -> Option<Matched> {
        for address in self.addresses().await {
            let Ok(mut stream) = TcpStream::connect(address).await else { continue };
            *asked = self.http_path.is_some();
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

/// The status of the answer. The rest is read too: a connection that is closed before is reset, which
/// servers report as an error.
async fn ask(stream: &mut TcpStream, address: SocketAddr, path: &str) -> Option<u16> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: trl\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut head = Vec::new();
    while head.len() < 12 && stream.read_buf(&mut head).await.ok()? > 0 {}
    // An answer without an end is left after a moment.
    let _time_is_up = tokio::time::timeout(REST_OF_ANSWER, drained(stream)).await;
    let line = String::from_utf8_lossy(&head);
    line.strip_prefix("HTTP/1.").and_then(|line| line.get(2..5)).and_then(|status| status.parse().ok())
}

async fn drained(stream: &mut TcpStream) {
    let mut piece = [0; 16 * 1024];
    let mut total = 0;
    while total < MOST_OF_ANSWER {
        match stream.read(&mut piece).await {
            Ok(read @ 1..) => total += read,
            Ok(0) | Err(_) => return,
        }
    }
}

pub(super) async fn wait(session: &Arc<Session>, exec: u64, probe: Probe) -> Result<Came, Fault> {
    let isolation = session.last_info().confinement.isolation;
    let is_own =
        session.backend.name() == "local" && isolation.is_some_and(|report| report.has_own_network());
    let opens = async {
        match is_own {
            true => probe.opens_inside(session).await,
            false => Ok(probe.opens().await),
        }
    };
    tokio::select! {
        biased;
        over = end(session, exec) => over.map(|()| Came::Over),
        matched = opens => matched.map(Came::Matched),
    }
}
