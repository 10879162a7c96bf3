//! Where the daemon of a grantee finds this one.

use std::net::{IpAddr, SocketAddr};

use trl_protocol::{Code, Fault};

/// What this daemon tells others about where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Announced {
    pub announce: Announce,
    pub http: Option<Served>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Announce {
    /// Nothing was said: a listener that others can reach is announced.
    #[default]
    Unset,
    /// Whatever is listened on.
    Listener,
    /// `https://HOST[:PORT]`, or `http://` on a loopback address.
    Url(String),
}

/// The HTTP listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub address: SocketAddr,
    /// The certificate chain (PEM) if it speaks TLS.
    pub certificate: Option<String>,
}

/// A URL, and the certificates that its server is to be known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) url: String,
    pub(crate) ca: Option<String>,
}

const HOW: &str = "serve HTTP with TLS where others can reach it (`http = \"0.0.0.0:7700\"`, `http_tls_cert`, \
                   `http_tls_key`), or set `announce = \"https://HOST:PORT\"` (TRL_ANNOUNCE)";

/// `is_here`: the grantee is an agent of this very daemon, so loopback is near enough.
pub(crate) fn find(announced: &Announced, hostname: &str, is_here: bool) -> Result<Reach, Fault> {
    let Announced { announce, http } = announced;
    let Some(Served { address, certificate }) = http else {
        return Err(unreachable("this daemon serves no HTTP"));
    };
    if let Announce::Url(url) = announce {
        return Ok(Reach { url: url.clone(), ca: certificate.clone() });
    }
    let is_loopback = address.ip().is_loopback();
    let may_stay_here = is_here || *announce == Announce::Listener;
    if is_loopback && !may_stay_here {
        return Err(unreachable(&format!("HTTP is served at {address}, which only this machine can reach")));
    }
    if !is_loopback && certificate.is_none() {
        return Err(unreachable(&format!(
            "HTTP at {address} is not encrypted, and the token would be readable on the network"
        )));
    }
    let scheme = if certificate.is_some() { "https" } else { "http" };
    let host = match address.ip() {
        ip if ip.is_unspecified() => hostname.to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    Ok(Reach { url: format!("{scheme}://{host}:{}", address.port()), ca: certificate.clone() })
}

fn unreachable(why: &str) -> Fault {
    Fault::new(Code::RuntimeUnavailable, format!("others cannot reach this daemon: {why}; {HOW}"))
        .with_details(serde_json::json!({ "setting": "announce" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(address: &str, tls: bool) -> Option<Served> {
        let certificate = tls.then(|| "PEM".to_owned());
        Some(Served { address: address.parse().unwrap(), certificate })
    }

    #[test]
    fn a_listener_that_others_can_reach_or_what_was_announced() {
        use Announce::{Listener, Unset, Url};
        let announced = Url("https://box.example:443".to_owned());
        for (announce, http, is_here, expected) in [
            (Unset, None, false, Err("serves no HTTP")),
            (announced.clone(), None, false, Err("serves no HTTP")),
            (announced.clone(), served("127.0.0.1:7700", false), false, Ok("https://box.example:443")),
            (Unset, served("127.0.0.1:7700", false), false, Err("only this machine")),
            (Unset, served("127.0.0.1:7700", false), true, Ok("http://127.0.0.1:7700")),
            (Listener, served("127.0.0.1:7700", false), false, Ok("http://127.0.0.1:7700")),
            (Listener, served("[::1]:7700", true), false, Ok("https://[::1]:7700")),
            (Unset, served("10.0.0.1:7700", false), true, Err("not encrypted")),
            (Listener, served("10.0.0.1:7700", false), false, Err("not encrypted")),
            (Unset, served("10.0.0.1:7700", true), false, Ok("https://10.0.0.1:7700")),
            (Unset, served("0.0.0.0:7700", true), false, Ok("https://build1:7700")),
        ] {
            let found =
                find(&Announced { announce: announce.clone(), http: http.clone() }, "build1", is_here);
            match expected {
                Ok(url) => {
                    assert_eq!(found.map(|reach| reach.url), Ok(url.to_owned()), "{announce:?} {http:?}")
                }
                Err(word) => {
                    let fault = found.unwrap_err();
                    assert_eq!(fault.code, Code::RuntimeUnavailable);
                    assert!(fault.message.contains(word) && fault.message.contains("announce"), "{fault}");
                }
            }
        }
    }
}
