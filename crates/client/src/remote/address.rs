//! Where a daemon's HTTP is: `https://HOST:PORT`, or `http://` on this machine.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    tls: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("{0:?} is not of the form https://HOST[:PORT]")]
    Form(String),
    /// A token would be readable on the way.
    #[error("{0:?}: http:// is for this machine (127.0.0.1, [::1], localhost) only; use https://")]
    PlainText(String),
}

impl Address {
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn web_socket(&self) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        format!("{scheme}://{}/v1/ws", self.authority())
    }

    /// `HOST:PORT`
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let form = || AddressError::Form(text.chars().take(200).collect());
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err(form()),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let default = if tls { 443 } else { 80 };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(form)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| form())?;
                (host, if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(form)?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map_or(Ok(default), str::parse).map_err(|_| form())?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if host.is_empty() || port == 0 || !host.chars().all(is_plain) {
            return Err(form());
        }
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !tls && !is_here {
            return Err(AddressError::PlainText(text.to_owned()));
        }
        Ok(Address { tls, host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (written, read) in [
            ("https://build1:7700", "https://build1:7700"),
            ("https://build1.example/", "https://build1.example:443"),
            ("http://127.0.0.1:7700", "http://127.0.0.1:7700"),
            ("http://localhost", "http://localhost:80"),
            ("http://[::1]:7700", "http://[::1]:7700"),
            ("https://[2001:db8::1]", "https://[2001:db8::1]:443"),
        ] {
            assert_eq!(written.parse::<Address>().unwrap().to_string(), read);
        }
        let address: Address = "https://[::1]:7".parse().unwrap();
        assert_eq!((address.host(), address.web_socket().as_str()), ("::1", "wss://[::1]:7/v1/ws"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "build1",
            "ftp://x",
            "https://",
            "https://:7",
            "https://a:0",
            "https://a:x",
            "https://a:99999",
            "https://a/b",
            "https://u@a",
            "https://a?b",
            "https://[::1",
            "https://[x]:7",
            "https://[::1]7",
        ] {
            assert!(matches!(text.parse::<Address>(), Err(AddressError::Form(_))), "{text}");
        }
        for text in ["http://build1:7700", "http://192.0.2.1", "http://localhost.example"] {
            assert!(matches!(text.parse::<Address>(), Err(AddressError::PlainText(_))), "{text}");
        }
    }
}
