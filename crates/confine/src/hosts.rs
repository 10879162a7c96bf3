//! Which hosts a session may reach: a list of patterns, and what it says about a name, an address and a port. Pure.
//!
//! A listed name says nothing about addresses of the machine itself and of private networks: whoever owns the
//! name could point it there. Such an address has to be listed itself, or be what `localhost` stands for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parsed from `api.example.com`, `*.example.org:443`, `192.0.2.7:8080`, `[2001:db8::7]:80`, `localhost:3000`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    which: Which,
    /// Any, if there is none.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Which {
    All,
    /// Every name that ends with this, which begins with a dot.
    Below(String),
    Host(Host),
}

/// What a program wants to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// Lower case, without a dot at the end.
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("net.allow: `{pattern}` is no host: write `api.example.com`, `*.example.org:443` or `192.0.2.7:80`")]
pub struct BadHost {
    pub pattern: String,
}

impl Hosts {
    pub fn parse(patterns: &[String]) -> Result<Hosts, BadHost> {
        let parse = |text: &String| Pattern::parse(text).ok_or_else(|| BadHost { pattern: text.clone() });
        patterns.iter().map(parse).collect::<Result<_, _>>().map(Hosts)
    }

    /// Whether the target itself is listed.
    pub fn lists(&self, target: &Target) -> bool {
        self.0.iter().any(|pattern| pattern.matches(target))
    }

    /// Whether a listed target may be reached at this address.
    pub fn admits(&self, target: &Target, address: IpAddr) -> bool {
        let is_localhost = target.host == Host::Name("localhost".to_owned());
        let is_named = || {
            self.0.iter().any(|pattern| matches!(&pattern.which, Which::Host(host) if *host == target.host))
        };
        is_public(address)
            || (is_localhost && address.is_loopback() && is_named())
            || self.0.iter().any(|pattern| {
                pattern.which == Which::Host(Host::Address(address)) && pattern.takes(target.port)
            })
    }

    /// Whether this name or address is listed with any port.
    pub fn mentions(&self, host: &str) -> bool {
        let host = Host::parse(host);
        self.0
            .iter()
            .any(|pattern| matches!(&pattern.which, Which::Host(named) if Some(named) == host.as_ref()))
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Pattern> {
        let (host, port) = split(text)?;
        let port = match port {
            None | Some("*") => None,
            Some(port) => Some(port.parse().ok().filter(|port| *port > 0)?),
        };
        let which = match host.strip_prefix('*') {
            Some("") => Which::All,
            Some(below) => {
                let Host::Name(name) = Host::parse(below.strip_prefix('.')?)? else { return None };
                Which::Below(format!(".{name}"))
            }
            None => Which::Host(Host::parse(host)?),
        };
        Some(Pattern { which, port })
    }

    fn takes(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    fn matches(&self, target: &Target) -> bool {
        let host = match (&self.which, &target.host) {
            // An address has to be listed itself.
            (Which::All, Host::Name(_)) => true,
            (Which::Below(end), Host::Name(name)) => name.len() > end.len() && name.ends_with(end.as_str()),
            (Which::All | Which::Below(_), Host::Address(_)) => false,
            (Which::Host(own), host) => own == host,
        };
        host && self.takes(target.port)
    }
}

impl Target {
    /// `host:port`, or only a host if there is a port to assume.
    pub fn parse(text: &str, port: Option<u16>) -> Option<Target> {
        let (host, given) = split(text)?;
        let port = match given {
            Some(given) => given.parse().ok()?,
            None => port?,
        };
        Some(Target { host: Host::parse(host)?, port })
    }
}

impl Host {
    pub fn parse(text: &str) -> Option<Host> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(address) = bare {
            return address.parse::<Ipv6Addr>().ok().map(|address| Host::Address(plain(address.into())));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Host::Address(plain(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_letter);
        (name.len() <= 253 && name.split('.').all(is_label)).then_some(Host::Name(name))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(address) => write!(f, "{address}:{}", self.port),
        }
    }
}

/// Host and port; an IPv6 address may have brackets, and must if there is a port.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(end) = text.strip_prefix('[').and_then(|rest| rest.find(']')) {
        let (host, rest) = text.split_at(end + 2);
        return match rest {
            "" => Some((host, None)),
            rest => Some((host, Some(rest.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

/// An IPv4 address is the same, however it is written.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(six) => six.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Whether an address belongs to neither this machine nor a private network.
fn is_public(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(four) => is_public_v4(four),
        IpAddr::V6(six) => {
            let parts = six.segments();
            let four = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
            // Addresses that carry one of the older kind lead where that leads.
            let carried = match parts {
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] => {
                    Some(four(high, low))
                }
                [0x2002, high, low, ..] => Some(four(high, low)),
                _ => None,
            };
            let is_local = six.is_unspecified()
                || six.is_loopback()
                || six.is_multicast()
                || parts[0] & 0xfe00 == 0xfc00
                || parts[0] & 0xff80 == 0xfe80;
            !is_local && carried.is_none_or(is_public_v4)
        }
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || matches!((a, b, c), (0 | 240..=255, _, _) | (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _));
    !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(patterns: &[&str]) -> Hosts {
        Hosts::parse(&patterns.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_target_is_listed_by_name_or_below_one_or_by_address() {
        let list = hosts(&[
            "api.example.com",
            "*.example.org:443",
            "192.0.2.7:80",
            "[2001:db8::7]",
            "Exact.Test.:1",
        ]);
        for (target, listed) in [
            ("api.example.com:443", true),
            ("API.Example.COM.:80", true),
            ("x.api.example.com:443", false),
            ("example.com:443", false),
            ("apixexample.com:443", false),
            ("a.example.org:443", true),
            ("a.b.example.org:443", true),
            ("a.example.org:80", false),
            ("example.org:443", false),
            ("notexample.org:443", false),
            ("192.0.2.7:80", true),
            ("192.0.2.7:81", false),
            ("[::ffff:192.0.2.7]:80", true),
            ("192.0.2.8:80", false),
            ("[2001:db8::7]:9", true),
            ("[2001:db8::8]:9", false),
            ("exact.test:1", true),
        ] {
            assert_eq!(list.lists(&Target::parse(target, None).unwrap()), listed, "{target}");
        }
        let all = hosts(&["*"]);
        assert!(all.lists(&Target::parse("any.name", Some(80)).unwrap()));
        assert!(!all.lists(&Target::parse("127.0.0.1:80", None).unwrap()));
    }

    #[test]
    fn a_listed_name_does_not_lead_inside() {
        let list = hosts(&["*", "a.example", "localhost:3000", "10.1.2.3:80"]);
        let admits = |target: &str, address: &str| {
            list.admits(&Target::parse(target, None).unwrap(), address.parse().unwrap())
        };
        for (target, address, admitted) in [
            ("a.example:80", "93.184.216.34", true),
            ("a.example:80", "2606:2800:220:1::1", true),
            ("localhost:3000", "127.0.0.1", true),
            ("localhost:3000", "::1", true),
            ("localhost:3000", "192.168.0.1", false),
            ("a.example:80", "10.1.2.3", true),
            ("a.example:81", "10.1.2.3", false),
            ("a.example:80", "127.0.0.1", false),
            ("2130706433:80", "127.0.0.1", false),
            ("a.example:80", "0.0.0.0", false),
            ("a.example:80", "10.1.2.4", false),
            ("a.example:80", "100.64.0.1", false),
            ("a.example:80", "169.254.169.254", false),
            ("a.example:80", "172.16.0.1", false),
            ("a.example:80", "192.168.1.1", false),
            ("a.example:80", "::1", false),
            ("a.example:80", "::", false),
            ("a.example:80", "::ffff:127.0.0.1", false),
            ("a.example:80", "::127.0.0.1", false),
            ("a.example:80", "64:ff9b::7f00:1", false),
            ("a.example:80", "2002:7f00:1::", false),
            ("a.example:80", "fd00::1", false),
            ("a.example:80", "fe80::1", false),
            ("a.example:80", "ff02::1", false),
        ] {
            assert_eq!(admits(target, address), admitted, "{target} at {address}");
        }
        assert!(list.mentions("localhost") && !list.mentions("127.0.0.1"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "https://a.example",
            "a.example/x",
            "a b",
            "a..b",
            "*example.org",
            "a.*.b",
            "a:0",
            "a:x",
            "a:70000",
            "[::1",
            "[::1]x",
            "ä.example",
        ] {
            let refused = Hosts::parse(&[text.to_owned()]);
            assert_eq!(refused, Err(BadHost { pattern: text.to_owned() }));
        }
        assert_eq!(Target::parse("a.example", None), None);
        assert_eq!(Target::parse("[::1]:80", None).unwrap().to_string(), "[::1]:80");
    }
}
