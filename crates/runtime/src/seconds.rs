//! Seconds as clients give them.

use std::time::Duration;

use trl_protocol::{Fault, limits::MAX_SECONDS};

/// Whether these are seconds that can be counted, 0 for none; `field` is named if not.
pub(crate) fn checked(field: &str, seconds: f64) -> Result<f64, Fault> {
    checked_where(field, seconds, "none")
}

/// The same for a time after which something happens: at once after 0.
pub(crate) fn until_then(field: &str, seconds: f64) -> Result<Duration, Fault> {
    checked_where(field, seconds, "at once").map(Duration::from_secs_f64)
}

fn checked_where(field: &str, seconds: f64, zero_is: &str) -> Result<f64, Fault> {
    if (0.0..=MAX_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    Err(Fault::invalid(format!(
        "param `{field}` must be between 0 ({zero_is}) and {MAX_SECONDS:.0} seconds, not {seconds}"
    ))
    .with_details(serde_json::json!({ "field": field })))
}

/// In whole milliseconds; what is not zero stays so.
pub(crate) fn as_millis(field: &str, seconds: f64) -> Result<u64, Fault> {
    checked(field, seconds).map(|seconds| (seconds * 1000.0).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_seconds_that_can_be_counted_pass() {
        for (seconds, millis) in
            [(0.0, 0), (0.0001, 1), (0.5, 500), (1.0, 1000), (MAX_SECONDS, 315_360_000_000)]
        {
            assert_eq!(as_millis("timeout_s", seconds), Ok(millis), "{seconds}");
        }
        for bad in [-0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, MAX_SECONDS + 1.0] {
            let fault = as_millis("timeout_s", bad).unwrap_err();
            assert!(fault.message.contains("timeout_s"), "{}", fault.message);
        }
    }
}
