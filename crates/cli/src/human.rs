//! Times and sizes as people read them.

use std::path::Path;

/// `<1ms`, `850ms`, `12.3s`, `4m05s`, `3h07m`, `2d04h`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0 if seconds < 0.001 => "<1ms".to_owned(),
        0 => format!("{}ms", (seconds * 1000.0) as u64),
        1..60 => format!("{}s", trim_zero(&format!("{seconds:.1}"))),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole % 86_400 / 3600),
    }
}

/// The same, coarse: `850ms` is `now`, `12.3s` is `12s`.
pub(crate) fn age(seconds: f64) -> String {
    if seconds < 1.0 { "now".to_owned() } else { duration(seconds.floor()) }
}

/// Seconds since an RFC 3339 time.
pub(crate) fn seconds_since(time: &str) -> Option<f64> {
    let then: jiff::Timestamp = time.parse().ok()?;
    Some(jiff::Timestamp::now().duration_since(then).as_secs_f64())
}

pub(crate) fn age_of(time: &str) -> String {
    seconds_since(time).map_or_else(|| "?".to_owned(), age)
}

/// `just now`, `12s ago`.
pub(crate) fn ago(time: &str) -> String {
    match age_of(time).as_str() {
        "now" => "just now".to_owned(),
        age => format!("{age} ago"),
    }
}

/// `0 B`, `1.5 KiB`, `64 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let number = if unit == 0 { format!("{count}") } else { format!("{value:.1}") };
    format!("{} {}", trim_zero(&number), UNITS[unit])
}

fn trim_zero(number: &str) -> &str {
    number.strip_suffix(".0").unwrap_or(number)
}

/// A path with the home directory as `~`.
pub(crate) fn path(path: &str, home: Option<&Path>) -> String {
    let below =
        home.filter(|home| home.parent().is_some()).and_then(|home| Path::new(path).strip_prefix(home).ok());
    match below {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.to_owned(),
    }
}

pub(crate) fn home_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("HOME").map(std::path::PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (seconds, expected) in [
            (0.0, "<1ms"),
            (0.9999, "999ms"),
            (0.85, "850ms"),
            (1.0, "1s"),
            (12.34, "12.3s"),
            (65.0, "1m05s"),
            (3600.0, "1h00m"),
            (90_061.0, "1d01h"),
            (-1.0, "<1ms"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
        assert_eq!((age(0.4), age(12.9)), ("now".into(), "12s".into()));
        assert_eq!(age_of("yesterday"), "?");
    }

    #[test]
    fn sizes() {
        for (count, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1 MiB"),
            (64 << 20, "64 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn paths_below_home() {
        let home = Some(Path::new("/home/a"));
        assert_eq!(path("/home/a", home), "~");
        assert_eq!(path("/home/a/src", home), "~/src");
        assert_eq!(path("/home/ab", home), "/home/ab");
        assert_eq!(path("/x", Some(Path::new("/"))), "/x");
    }
}
