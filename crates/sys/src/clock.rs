//! The machine's clocks.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970. The clock may be set at any time, forwards or backwards.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Time since the machine was started, including time spent suspended where the system counts it.
/// Nobody can set this clock.
pub fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// Identifies the current boot of the machine; empty where the system does not tell.
pub fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let id = crate::process::read_text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_advance_and_the_boot_stays_the_same() {
        let (unix, boot) = (unix_ms(), since_boot());
        assert!(unix > 1_600_000_000_000);
        assert!(since_boot() >= boot);
        let again = crate::process::read_text("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(boot_id(), again.trim());
    }
}
