//! HTTP as a proxy speaks it: `CONNECT`, and plain requests that name their server, one for each connection.

use std::io;

use tokio::io::AsyncWriteExt as _;
use trl_confine::hosts::Target;

use super::client::{Client, Tunnel};
use super::{Proxy, Refusal};

const CONNECTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What the head of a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum ProxyRequest {
    Connect(Target),
    /// With the head that the server is to see.
    Forward(Target, Vec<u8>),
}

pub(super) async fn tunnel(proxy: &Proxy, client: &mut Client) -> io::Result<Option<Tunnel>> {
    let head = client.take_head().await?;
    let (target, first, answer) = match read(&head) {
        Ok(ProxyRequest::Connect(target)) => (target, Vec::new(), CONNECTED),
        Ok(ProxyRequest::Forward(target, head)) => (target, head, &b""[..]),
        Err(problem) => return refuse(client, "400 Bad Request", problem).await,
    };
    match proxy.connect(&target).await {
        Ok(server) => Ok(Some(Tunnel { server, first, answer })),
        Err(refusal) => {
            let status = match refusal {
                Refusal::NotListed(_) | Refusal::Private(..) => "403 Forbidden",
                Refusal::Unknown(..) | Refusal::Unreachable(..) => "502 Bad Gateway",
            };
            refuse(client, status, &refusal.to_string()).await
        }
    }
}

async fn refuse(client: &mut Client, status: &str, text: &str) -> io::Result<Option<Tunnel>> {
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}\n"
    );
    client.stream.write_all(answer.as_bytes()).await?;
    Ok(None)
}

fn read(head: &[u8]) -> Result<ProxyRequest, &'static str> {
    let text = std::str::from_utf8(head).map_err(|_| "the head of the request is no text")?;
    let (line, fields) = text.split_once("\r\n").unwrap_or((text, ""));
    let mut words = line.split(' ');
    let (Some(method), Some(address), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("the first line of the request is not one of HTTP");
    };
    if !version.starts_with("HTTP/1.") {
        return Err("this proxy speaks HTTP/1.1");
    }
    if method == "CONNECT" {
        return Target::parse(address, None).map(ProxyRequest::Connect).ok_or("CONNECT needs `host:port`");
    }
    let scheme = address.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = scheme.and_then(|_| address.get(7..));
    let rest = rest.ok_or("this is a proxy: it takes CONNECT, and requests for http://host/path")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let target = Target::parse(authority, Some(80)).ok_or("the address names no host")?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut forwarded = format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\n");
    forwarded.push_str(&kept(fields));
    Ok(ProxyRequest::Forward(target, forwarded.into_bytes()))
}

/// The fields that are for the server. Its answer ends the connection, so that a next request is looked at too.
fn kept(fields: &str) -> String {
    let mut kept = String::new();
    let (mut keeps, mut upgrades) = (false, false);
    for field in fields.split("\r\n").filter(|field| !field.is_empty()) {
        if !field.starts_with([' ', '\t']) {
            let name = field.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
            keeps =
                !matches!(name.as_str(), "host" | "connection" | "keep-alive") && !name.starts_with("proxy-");
            upgrades |= name == "upgrade";
        }
        if keeps {
            kept.push_str(field);
            kept.push_str("\r\n");
        }
    }
    kept.push_str(if upgrades { "Connection: upgrade\r\n\r\n" } else { "Connection: close\r\n\r\n" });
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(head: &str) -> (String, String) {
        match read(head.as_bytes()) {
            Ok(ProxyRequest::Forward(target, head)) => (target.to_string(), String::from_utf8(head).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_reaches_its_server_as_if_there_were_no_proxy() {
        let head = "GET http://A.example:81/x?y HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: secret\r\n more\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n";
        let expected = "GET /x?y HTTP/1.1\r\nHost: A.example:81\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(forwarded(head), ("a.example:81".to_owned(), expected.to_owned()));
        let head = "GET http://u:p@a.example HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        let expected =
            "GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n";
        assert_eq!(forwarded(head), ("a.example:80".to_owned(), expected.to_owned()));
        assert_eq!(
            forwarded("GET http://a.example?x HTTP/1.0\r\n\r\n").1.lines().next(),
            Some("GET /?x HTTP/1.0")
        );
    }

    #[test]
    fn what_asks_for_no_server_is_refused() {
        let connect = read(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n");
        assert_eq!(connect, Ok(ProxyRequest::Connect(Target::parse("a.example:443", None).unwrap())));
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "CONNECT a.example HTTP/1.1\r\n\r\n",
            "CONNECT http://a.example:80 HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/2\r\n\r\n",
            "GET\r\n\r\n",
            "\r\n\r\n",
            "GET http://ä HTTP/1.1\r\n\r\n",
        ] {
            assert!(read(head.as_bytes()).is_err(), "{head:?}");
        }
    }
}
