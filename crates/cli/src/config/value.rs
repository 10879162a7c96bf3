//! Settings as people write them: numbers with or without a unit, yes and no.

use trl_protocol::isolation::Isolation;
use trl_protocol::limits::MAX_SECONDS;
use trl_protocol::session::CreateParams;
use trl_runtime::Announce;

pub(crate) const SECONDS: &str = "a number of seconds (`90`, `1.5`, `10m`, `2h`; 0 for none)";
pub(crate) const BYTES: &str = "a number of bytes (`65536`, `512k`, `64M`, `1G`)";
pub(crate) const ISOLATION: &str = "`none`, `workspace`, `strict`, or an object with `profile`";
pub(crate) const YES_NO: &str = "one of 1, 0, true, false, yes, no, on, off";
pub(crate) const COUNT: &str = "a whole number of at least 1";
pub(crate) const ADDRESS: &str =
    "an address and a port (`127.0.0.1:7700`, `[::1]:7700`, `localhost:7700`, or `7700`)";
pub(crate) const ANNOUNCE: &str =
    "`https://HOST:PORT`, `http://` with a loopback address, `on` for the address of HTTP, or `off`";
pub(crate) const TOOLS: &str =
    "`minimal`, `terminal`, `default`, `mail`, `files`, `full`, or names of tools separated by commas";
pub(crate) const CHANNEL: &str = "`notice`, `message` or `off`";
pub(crate) const FORMAT: &str = "`human` or `json`";

/// Seconds, plain or with `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let seconds = plain_number(digits)? * scale;
    (seconds <= MAX_SECONDS).then_some(seconds)
}

/// Bytes, plain or with `k`, `M`, `G` (also `KiB`, `MB`, …: always powers of 1024).
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// `f64`'s own parser also takes `inf`, `nan`, `1e9` and a sign.
fn plain_number(digits: &str) -> Option<f64> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain { digits.parse().ok() } else { None }
}

pub(crate) fn yes_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// One word, or JSON as `session.create` takes it.
pub(crate) fn isolation(text: &str) -> Option<Isolation> {
    let text = text.trim();
    let said = match text.starts_with('{') {
        true => serde_json::from_str(text).ok()?,
        false => serde_json::Value::from(text),
    };
    let asked: CreateParams = serde_json::from_value(serde_json::json!({ "isolation": said })).ok()?;
    asked.isolation
}

pub(crate) fn count(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|count| *count > 0)
}

/// Where others find this daemon. A token is not to go over a network in the clear.
pub(crate) fn announce(text: &str) -> Option<Announce> {
    let text = text.trim().trim_end_matches('/');
    if let Some(wanted) = yes_no(text) {
        return Some(if wanted { Announce::Listener } else { Announce::Unset });
    }
    let host = announced_host(text)?;
    let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (text.starts_with("https://") || is_here).then(|| Announce::Url(text.to_owned()))
}

/// The host of an announced URL, without brackets.
pub(crate) fn announced_host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
    (is_host && port.is_none_or(|port| port.parse::<u16>().is_ok())).then_some(host)
}

/// An address with its port. A port alone is one of this machine, for this machine.
pub(crate) fn address(text: &str) -> Option<String> {
    let text = text.trim();
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    port.parse::<u16>().ok()?;
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.contains([':', '/', '[', ']', ' ']),
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    is_host.then(|| format!("{host}:{port}"))
}

/// Words between commas.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_as_people_write_them() {
        for (text, expected) in [
            ("90", Some(90.0)),
            ("1.5", Some(1.5)),
            (" 2m ", Some(120.0)),
            ("1h", Some(3600.0)),
            ("2d", Some(172_800.0)),
            ("250ms", Some(0.25)),
            ("0", Some(0.0)),
            ("", None),
            ("m", None),
            ("-1", None),
            ("inf", None),
            ("nan", None),
            ("1e3", None),
            ("5 min", None),
            ("99999999999", None),
        ] {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_as_people_write_them() {
        for (text, expected) in [
            ("65536", Some(65536)),
            ("512k", Some(512 << 10)),
            ("64MiB", Some(64 << 20)),
            ("1G", Some(1 << 30)),
            ("1.5M", None),
            ("-1", None),
            ("lots", None),
            ("99999999999999G", None),
        ] {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn addresses_have_a_port_and_are_this_machines_unless_said() {
        for (text, expected) in [
            ("127.0.0.1:7700", Some("127.0.0.1:7700")),
            ("[::1]:0", Some("[::1]:0")),
            ("localhost:80", Some("localhost:80")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            (":7700", Some("127.0.0.1:7700")),
            ("7700", Some("127.0.0.1:7700")),
            ("localhost", None),
            ("::1", None),
            ("::1:80", None),
            ("127.0.0.1:99999", None),
            ("http://localhost:80", None),
            ("", None),
        ] {
            assert_eq!(address(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(list(" a, b,,"), ["a", "b"]);
    }

    #[test]
    fn what_is_announced_is_encrypted_or_stays_here() {
        let url = |text: &str| Some(Announce::Url(text.to_owned()));
        for (text, expected) in [
            ("on", Some(Announce::Listener)),
            ("no", Some(Announce::Unset)),
            ("https://build1:7700", url("https://build1:7700")),
            ("https://build1.example.org/", url("https://build1.example.org")),
            ("https://[fd00::1]:7700", url("https://[fd00::1]:7700")),
            ("http://127.0.0.1:7700", url("http://127.0.0.1:7700")),
            ("http://[::1]:7700", url("http://[::1]:7700")),
            ("http://build1:7700", None),
            ("https://build1:7700/path", None),
            ("https://build1:seven", None),
            ("https://user@build1", None),
            ("build1:7700", None),
        ] {
            assert_eq!(announce(text), expected, "{text:?}");
        }
        assert_eq!(announced_host("https://[fd00::1]:7700"), Some("fd00::1"));
    }

    #[test]
    fn yes_and_no() {
        assert_eq!(yes_no("YES"), Some(true));
        assert_eq!(yes_no("off"), Some(false));
        assert_eq!(yes_no("2"), None);
        assert_eq!((count("3"), count("0"), count("x")), (Some(3), None, None));
    }
}
