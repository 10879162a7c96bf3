//! Whether a port takes connections, or answers a request, seen from where the session runs.
//!
//! Done by a worker (`crate::workers`): it may take as long as a network does.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use trl_protocol::exec::PortUntil;
use trl_protocol::wire::PortSeen;

/// How long somebody may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// A server that takes connections may take its time to answer the first.
const ANSWER: Duration = Duration::from_secs(10);
/// How much of an answer is read, so that the server can send it to its end.
const MOST_OF_ANSWER: usize = 1024 * 1024;
/// How long the rest of an answer is waited for.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);

/// One look.
pub(crate) fn look(until: &PortUntil) -> PortSeen {
    let mut seen = PortSeen::Closed;
    for address in addresses(until) {
        let Ok(mut stream) = TcpStream::connect_timeout(&address, CONNECT) else { continue };
        let host = until.host.clone().unwrap_or_else(|| address.ip().to_string());
        let Some(path) = &until.http_path else {
            return PortSeen::Open { host, http_status: None };
        };
        match ask(&mut stream, address, path).filter(|status| *status < 400) {
            Some(status) => return PortSeen::Open { host, http_status: Some(status) },
            None => seen = PortSeen::Unready,
        }
    }
    seen
}

/// Servers of this machine may listen on either of its own addresses.
fn addresses(until: &PortUntil) -> Vec<SocketAddr> {
    let port = until.port;
    match until.host.as_deref() {
        None | Some("localhost") => {
            vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
        }
        Some(host) => (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default(),
    }
}

/// The status of the answer. The rest is read too: a connection that is closed before is reset, which
/// servers report as an error.
fn ask(stream: &mut TcpStream, address: SocketAddr, path: &str) -> Option<u16> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: trl\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.set_write_timeout(Some(ANSWER)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut head = Vec::new();
    let end = Instant::now() + ANSWER;
    while head.len() < 12 && read_until(stream, end, &mut head)? > 0 {}
    let (mut rest, end) = (Vec::new(), Instant::now() + REST_OF_ANSWER);
    // An answer without an end is left after a moment.
    while rest.len() < MOST_OF_ANSWER && read_until(stream, end, &mut rest).is_some_and(|read| read > 0) {}
    let line = String::from_utf8_lossy(&head);
    line.strip_prefix("HTTP/1.").and_then(|line| line.get(2..5)).and_then(|status| status.parse().ok())
}

/// Reads what has come; `None` if nothing has by then.
fn read_until(stream: &mut TcpStream, end: Instant, into: &mut Vec<u8>) -> Option<usize> {
    let left = end.saturating_duration_since(Instant::now());
    // No time at all would be no limit.
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
    let mut piece = [0; 16 * 1024];
    let read = stream.read(&mut piece).ok()?;
    into.extend(&piece[..read]);
    Some(read)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn until(port: u16, host: Option<&str>, http_path: Option<&str>) -> PortUntil {
        PortUntil { port, host: host.map(str::to_owned), http_path: http_path.map(str::to_owned) }
    }

    #[test]
    fn a_port_is_open_if_somebody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = |host: &str| PortSeen::Open { host: host.to_owned(), http_status: None };
        assert_eq!(look(&until(port, None, None)), open("127.0.0.1"));
        for host in ["localhost", "127.0.0.1"] {
            assert_eq!(look(&until(port, Some(host), None)), open(host));
        }
        drop(listener);
        assert_eq!(look(&until(port, None, None)), PortSeen::Closed);
    }

    #[test]
    fn a_path_is_ready_if_its_status_says_so() {
        for (answer, seen) in [
            ("HTTP/1.1 204 No Content\r\n\r\n", Some(204)),
            ("HTTP/1.0 399 x", Some(399)),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", None),
            ("SSH-2.0-x\r\n", None),
            ("", None),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 15];
                stream.read_exact(&mut asked).unwrap();
                assert_eq!(&asked, b"GET /x HTTP/1.1");
                stream.write_all(answer.as_bytes()).unwrap();
            });
            let expected = match seen {
                Some(status) => PortSeen::Open { host: "127.0.0.1".to_owned(), http_status: Some(status) },
                None => PortSeen::Unready,
            };
            assert_eq!(look(&until(port, Some("127.0.0.1"), Some("/x"))), expected, "{answer}");
            server.join().unwrap();
        }
    }
}
