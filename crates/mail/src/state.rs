//! Where a message is on its way: names for the store, and which step may follow which.

use trl_protocol::mail::{FailReason, State};

macro_rules! names {
    ($type:ty, $to:ident, $from:ident, $($variant:path = $name:literal),* $(,)?) => {
        pub(crate) fn $to(value: $type) -> &'static str { match value { $($variant => $name,)* } }
        pub(crate) fn $from(text: &str) -> Option<$type> { match text { $($name => Some($variant),)* _ => None } }
    };
}

names!(
    State,
    state_name,
    state_named,
    State::Queued = "queued",
    State::Sealed = "sealed",
    State::Relayed = "relayed",
    State::Delivered = "delivered",
    State::Held = "held",
    State::Routed = "routed",
    State::Offered = "offered",
    State::Read = "read",
    State::Replied = "replied",
    State::Failed = "failed",
);
names!(
    FailReason,
    reason_name,
    reason_named,
    FailReason::UnknownRecipient = "unknown_recipient",
    FailReason::NotContact = "not_contact",
    FailReason::Blocked = "blocked",
    FailReason::MailboxFull = "mailbox_full",
    FailReason::TooLarge = "too_large",
    FailReason::RateLimited = "rate_limited",
    FailReason::Expired = "expired",
    FailReason::SessionClosed = "session_closed",
    FailReason::Dropped = "dropped",
    FailReason::Undecryptable = "undecryptable",
);

/// What a new word about a message does to what is believed about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advance {
    /// It becomes the state.
    Moves,
    /// True but late: it belongs into the history only.
    Late,
    /// It contradicts an end and is not believed.
    Refused,
}

/// Words may come late or twice; a state never goes back, and an end is an end. Except that nobody who gave a message up
/// because of its time knows better than its reader.
pub(crate) fn advance(current: State, reason: Option<FailReason>, next: State) -> Advance {
    match (current, next) {
        (State::Failed, State::Read | State::Replied) if reason == Some(FailReason::Expired) => {
            Advance::Moves
        }
        (State::Failed, _) => Advance::Refused,
        // A broadcast copy or an expiry cannot undo that someone has read it.
        (State::Read | State::Replied, State::Failed) => Advance::Refused,
        (current, next) if next > current => Advance::Moves,
        // Rerouted: from an inbox back to waiting for a reader.
        (State::Routed | State::Offered, State::Held) => Advance::Moves,
        (_, State::Queued | State::Sealed) => Advance::Late,
        (_, _) => Advance::Late,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_go_forward_and_ends_are_ends() {
        use State::*;
        let cases = [
            (Queued, Sealed, Advance::Moves),
            (Relayed, Read, Advance::Moves),
            (Read, Delivered, Advance::Late),
            (Delivered, Relayed, Advance::Late),
            (Held, Routed, Advance::Moves),
            (Routed, Held, Advance::Moves),
            (Held, Failed, Advance::Moves),
            (Read, Failed, Advance::Refused),
            (Failed, Read, Advance::Refused),
            (Failed, Failed, Advance::Refused),
            (Read, Replied, Advance::Moves),
        ];
        for (current, next, expected) in cases {
            assert_eq!(advance(current, None, next), expected, "{current:?} -> {next:?}");
        }
        let expired = [
            (Relayed, Advance::Refused),
            (Delivered, Advance::Refused),
            (Read, Advance::Moves),
            (Replied, Advance::Moves),
            (Failed, Advance::Refused),
        ];
        for (next, expected) in expired {
            assert_eq!(advance(Failed, Some(FailReason::Expired), next), expected, "expired -> {next:?}");
            assert_eq!(advance(Failed, Some(FailReason::Blocked), next), Advance::Refused, "{next:?}");
        }
    }

    #[test]
    fn names_come_back() {
        for state in [State::Queued, State::Held, State::Failed] {
            assert_eq!(state_named(state_name(state)), Some(state));
        }
        assert_eq!(reason_named(reason_name(FailReason::Expired)), Some(FailReason::Expired));
        assert_eq!(state_named("sent"), None);
    }
}
