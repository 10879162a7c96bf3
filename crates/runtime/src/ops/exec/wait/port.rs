//! A port that takes connections, or answers a request. The kernel tells nobody when a port is opened, so it is
//! looked at, at first often, then less so; the command's end is an event. The session's host looks, where the session
//! runs: in its own network if it has one, in its container, on its machine.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use trl_protocol::exec::{Matched, PortUntil};
use trl_protocol::wire::{FromHost, PortSeen, ToHost};
use trl_protocol::{Code, Fault};

use super::{Came, bad, end};
use crate::session::{Session, unexpected};

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Between requests: each is work for the server, and a line in its log.
const FIRST_PAUSE_OF_REQUESTS: Duration = Duration::from_millis(100);
const LONGEST_PAUSE_OF_REQUESTS: Duration = Duration::from_secs(2);

pub(super) async fn wait(session: &Arc<Session>, exec: u64, until: PortUntil) -> Result<Came, Fault> {
    check_host(session, &until)?;
    tokio::select! {
        biased;
        over = end(session, exec) => over.map(|()| Came::Over),
        matched = opens(session, &until) => matched.map(Came::Matched),
    }
}

/// Out of a network of the session's own, nothing else can be reached.
fn check_host(session: &Session, until: &PortUntil) -> Result<(), Fault> {
    let isolation = session.last_info().confinement.isolation;
    if !isolation.is_some_and(|report| report.has_own_network()) {
        return Ok(());
    }
    let is_own = |host: &str| host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match until.host.as_deref() {
        Some(host) if !is_own(host) => {
            let problem = "the session has a network of its own, with loopback addresses only";
            Err(bad("until.port.host", problem))
        }
        _ => Ok(()),
    }
}

async fn opens(session: &Session, until: &PortUntil) -> Result<Matched, Fault> {
    let mut pause = FIRST_PAUSE;
    let mut pause_of_requests = FIRST_PAUSE_OF_REQUESTS;
    loop {
        match look(session, until).await? {
            PortSeen::Open { host, http_status } => {
                return Ok(Matched::Port { port: until.port, host, http_status });
            }
            // A port that is closed costs nobody anything; a server that answers is asked seldom.
            PortSeen::Unready => {
                tokio::time::sleep(pause_of_requests).await;
                pause_of_requests = (pause_of_requests * 2).min(LONGEST_PAUSE_OF_REQUESTS);
            }
            PortSeen::Closed => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

async fn look(session: &Session, until: &PortUntil) -> Result<PortSeen, Fault> {
    let port = Box::new(until.clone());
    match session.link.call(|req| ToHost::Port { req, port }).await {
        Ok(answer) => match answer.message {
            FromHost::Port { seen, .. } => Ok(seen),
            other => Err(unexpected(session.id, &other)),
        },
        // It has too much to do now; there is time.
        Err(fault) if fault.code == Code::ResourcePressure => Ok(PortSeen::Closed),
        Err(fault) => Err(fault),
    }
}
