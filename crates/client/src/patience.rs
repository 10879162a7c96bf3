//! How often a request that loses its connection is tried again.

use std::time::{Duration, Instant};

use crate::connection::Ended;

/// Daemons that may go away with one request before it is given up.
const TRIES: u32 = 4;
/// A daemon that is killed closes its connections first and its socket a moment later: whoever
/// asks again at once may reach it once more. What nobody has read costs no try. This many are
/// a peer that closes them all.
const UNREAD: u32 = 32;
/// A daemon that had a request for this long did not fall over it: a command may outlive any
/// number of them.
const LIVED: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Patience {
    left: u32,
    unread: u32,
    sent: Instant,
    has_lost_one: bool,
}

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { left: TRIES, unread: UNREAD, sent: Instant::now(), has_lost_one: false }
    }

    /// Whether a connection has ended under the request.
    pub(crate) fn has_lost_one(&self) -> bool {
        self.has_lost_one
    }

    /// The daemon did something with it.
    pub(crate) fn renew(&mut self) {
        (self.left, self.unread) = (TRIES, UNREAD);
    }

    pub(crate) fn sent(&mut self) {
        self.sent = Instant::now();
    }

    /// The connection ended. False: that was the last.
    pub(crate) fn ended(&mut self, how: Ended) -> bool {
        self.has_lost_one = true;
        if self.sent.elapsed() >= LIVED {
            self.renew();
        }
        match how {
            Ended::Unread => self.unread = self.unread.saturating_sub(1),
            Ended::Closed => self.left = self.left.saturating_sub(1),
        }
        self.left > 0 && self.unread > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_had_costs_no_try_but_ends_sometime() {
        let mut patience = Patience::new();
        for _ in 1..TRIES {
            assert!(patience.ended(Ended::Closed));
            assert!(patience.ended(Ended::Unread));
        }
        assert!(!patience.ended(Ended::Closed));
        let mut closing = Patience::new();
        assert_eq!((1..=UNREAD).filter(|_| closing.ended(Ended::Unread)).count(), UNREAD as usize - 1);
    }

    #[test]
    fn a_long_wait_may_see_many_daemons() {
        let mut patience = Patience::new();
        for _ in 0..3 * TRIES {
            patience.sent = Instant::now().checked_sub(LIVED).unwrap();
            assert!(patience.ended(Ended::Closed));
        }
    }
}
