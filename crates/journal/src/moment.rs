//! When something was written, such that its age is right whatever the machine's clock does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// By two clocks: within one run of the machine the one that cannot be set is believed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Which run of the machine; empty where that is not known.
    boot: String,
    since_boot_ms: u64,
    clock_ms: u64,
}

impl Moment {
    pub fn now() -> Moment {
        Moment {
            boot: trl_sys::clock::boot_id().to_owned(),
            since_boot_ms: trl_sys::clock::since_boot().as_millis() as u64,
            clock_ms: trl_sys::clock::unix_ms(),
        }
    }

    /// How long ago it was; what seems to lie ahead is new.
    pub fn age(&self, now: &Moment) -> Duration {
        let same_run = !self.boot.is_empty() && self.boot == now.boot;
        let ms = if same_run {
            now.since_boot_ms.saturating_sub(self.since_boot_ms)
        } else {
            now.clock_ms.saturating_sub(self.clock_ms)
        };
        Duration::from_millis(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_makes_nothing_old() {
        let at =
            |boot: &str, since_boot_ms, clock_ms| Moment { boot: boot.to_owned(), since_boot_ms, clock_ms };
        let written = at("a", 1000, 50_000);
        for (now, age_ms) in [
            (at("a", 3000, 52_000), 2000),
            (at("a", 3000, 999_000_000), 2000),
            (at("a", 3000, 0), 2000),
            (at("b", 10, 57_000), 7000),
            (at("b", 10, 0), 0),
        ] {
            assert_eq!(written.age(&now), Duration::from_millis(age_ms), "{now:?}");
        }
        let unknown = at("", 1000, 50_000);
        assert_eq!(unknown.age(&at("", 9000, 51_000)), Duration::from_secs(1));
        assert!(Moment::now().age(&Moment::now()) < Duration::from_secs(60));
    }
}
