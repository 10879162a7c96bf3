//! Waiting for what has no event of its own.

use std::time::{Duration, Instant};

/// How long anything may take before it counts as hung. Not a speed limit.
pub const GUARD: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; fails the test with `what` if it never does.
///
/// For facts that nobody announces (a counter in `/proc`, a file's size). Where
/// there is an event (a reply, a process's end, a new file), wait for that.
#[track_caller]
pub fn wait_until(what: &str, guard: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + guard;
    let mut pause = Duration::from_micros(200);
    while !condition() {
        assert!(Instant::now() < end, "waited {guard:?} in vain: {what}");
        std::thread::park_timeout(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_returns_when_the_condition_holds() {
        let mut left = 3;
        wait_until("a countdown", GUARD, || {
            left -= 1;
            left == 0
        });
        assert_eq!(left, 0);
    }

    #[test]
    #[should_panic(expected = "in vain: the moon")]
    fn it_fails_with_what_it_waited_for() {
        wait_until("the moon", Duration::from_millis(1), || false);
    }
}
