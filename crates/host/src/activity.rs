//! When the session was made and last used.

use std::time::{Duration, Instant};

use trl_protocol::limits;

#[derive(Debug)]
pub(crate) struct Activity {
    created: Instant,
    created_at: String,
    last: Instant,
    last_at: String,
    is_resting: bool,
}

/// Commands that follow one another more quickly than this find everything in its place.
const REST_AFTER: Duration = Duration::from_secs(2);

impl Activity {
    /// `created_at`: when the session was made, which an earlier host may have done.
    pub(crate) fn new(created_at: String) -> Activity {
        let now = Instant::now();
        Activity { created: now, created_at, last: now, last_at: timestamp(), is_resting: false }
    }

    /// The session is used now.
    pub(crate) fn mark(&mut self) {
        self.last = Instant::now();
        self.last_at = timestamp();
        self.is_resting = false;
    }

    /// When a session that is not used can do with less memory. None if that has been seen to.
    pub(crate) fn rests(&self) -> Option<Instant> {
        (!self.is_resting).then(|| self.last + REST_AFTER)
    }

    pub(crate) fn rest(&mut self) {
        self.is_resting = true;
    }

    /// When the session was used last, as a moment and as text.
    pub(crate) fn last(&self) -> (Instant, &str) {
        (self.last, &self.last_at)
    }

    pub(crate) fn created_at(&self) -> &str {
        &self.created_at
    }

    /// When a session that nobody uses has been idle, or has lived, for too long. 0 is no limit.
    pub(crate) fn expires(&self, idle_timeout_s: f64, ttl_s: f64) -> Option<Instant> {
        let after = |from: Instant, seconds: f64| {
            (seconds > 0.0).then(|| from + Duration::from_secs_f64(seconds.min(limits::MAX_SECONDS)))
        };
        [after(self.last, idle_timeout_s), after(self.created, ttl_s)].into_iter().flatten().min()
    }

    /// Which limit has ended the session, and what allows more.
    pub(crate) fn why_expired(&self, now: Instant, idle_timeout_s: f64, ttl_s: f64) -> String {
        if ttl_s > 0.0 && now.duration_since(self.created).as_secs_f64() >= ttl_s {
            return format!("it was older than {ttl_s} s; TRL_SESSION_TTL_SEC of the daemon allows more");
        }
        format!(
            "it had no command for {idle_timeout_s} s; idle_timeout_s of session.create, or TRL_MAX_IDLE_SEC, allows more"
        )
    }
}

/// The current time as text: RFC 3339, UTC, milliseconds.
pub(crate) fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_to_the_millisecond() {
        let text = timestamp();
        assert_eq!(text.len(), "2026-11-17T09:08:07.006Z".len(), "{text}");
        assert!(text.ends_with('Z') && text.as_bytes()[19] == b'.' && text.as_bytes()[10] == b'T', "{text}");
        assert!(text.parse::<jiff::Timestamp>().is_ok(), "{text}");
    }

    #[test]
    fn a_session_rests_once_after_each_use() {
        let mut activity = Activity::new(timestamp());
        assert_eq!(activity.rests(), Some(activity.last + REST_AFTER));
        activity.rest();
        assert_eq!(activity.rests(), None);
        activity.mark();
        assert_eq!(activity.rests(), Some(activity.last + REST_AFTER));
    }

    #[test]
    fn idle_time_counts_from_the_last_use_and_age_from_the_start() {
        let mut activity = Activity::new(timestamp());
        let begun = activity.created;
        activity.last = begun + Duration::from_secs(100);
        for (idle, ttl, expires) in [
            (0.0, 0.0, None),
            (10.0, 0.0, Some(110)),
            (0.0, 50.0, Some(50)),
            (10.0, 50.0, Some(50)),
            (10.0, 500.0, Some(110)),
        ] {
            let expected = expires.map(|seconds| begun + Duration::from_secs(seconds));
            assert_eq!(activity.expires(idle, ttl), expected, "idle {idle}, ttl {ttl}");
        }
        let why = |seconds| activity.why_expired(begun + Duration::from_secs(seconds), 10.0, 120.0);
        assert!(why(110).starts_with("it had no command for 10 s"));
        assert!(why(120).starts_with("it was older than 120 s"));
    }
}
