//! Where a request may come from: names that this daemon answers to, and web pages that may use it.
//!
//! A page can make its visitor's browser call any address. It can even give a name of its
//! own the daemon's address, so that the browser takes the daemon for the page's own
//! server; the name in `Host` shows it. Addresses and `localhost` cannot be lent like that.

use std::net::IpAddr;

/// How this daemon is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// What is allowed beside what is always allowed.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    pub(crate) scheme: Scheme,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
}

impl Allowed {
    /// `host` as in the header: a name or an address, perhaps with a port.
    pub(crate) fn host(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else { return false };
        name.eq_ignore_ascii_case("localhost")
            || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// A page served under the very name that was asked for, in the very way, is our own. One of another
    /// scheme is another server's: whoever can change what comes unencrypted could have written it.
    pub(crate) fn origin(&self, origin: &str, host: &str) -> bool {
        let own = origin.split_once("://").is_some_and(|(scheme, authority)| {
            scheme.eq_ignore_ascii_case(self.scheme.name()) && authority.eq_ignore_ascii_case(host)
        });
        own || self.origins.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(origin))
    }
}

/// The name or address alone; `None` if it is no host at all.
fn without_port(host: &str) -> Option<&str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => {
            if !port.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            name
        }
        _ => host,
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Allowed {
        Allowed {
            scheme: Scheme::Http,
            hosts: vec!["build.example".into()],
            origins: vec!["https://board.example".into()],
        }
    }

    #[test]
    fn addresses_localhost_and_named_hosts_are_answered() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.1:7000", true),
            ("[::1]:7000", true),
            ("[::1]", true),
            ("192.0.2.7:80", true),
            ("localhost", true),
            ("LocalHost:7000", true),
            ("build.example", true),
            ("BUILD.example:443", true),
            ("evil.example", false),
            ("evil.example:7000", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost:evil", false),
            ("", false),
            (":80", false),
            ("build.example@evil", false),
        ] {
            assert_eq!(allowed().host(host), expected, "{host:?}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        for (origin, expected) in [
            ("https://board.example", true),
            ("http://localhost:7000", true),
            ("HTTP://LocalHost:7000", true),
            ("https://localhost:7000", false),
            ("http://localhost:7001", false),
            ("ftp://localhost:7000", false),
            ("localhost:7000", false),
            ("https://board.example.evil", false),
            ("http://board.example", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(allowed().origin(origin, "localhost:7000"), expected, "{origin:?}");
        }
        let secure = Allowed { scheme: Scheme::Https, ..allowed() };
        assert!(secure.origin("https://localhost:7000", "localhost:7000"));
        assert!(!secure.origin("http://localhost:7000", "localhost:7000"));
        let any = Allowed { origins: vec!["*".into()], ..allowed() };
        assert!(any.origin("null", "localhost"));
    }
}
