//! Where a message goes. Pure: facts in, decision out.

use trl_protocol::agent::Policy;

use crate::label::natural_order;

/// A session that is live now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSession {
    pub uuid: String,
    pub label: String,
}

/// What a message says about where it wants to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination<'a> {
    pub to_session: Option<&'a str>,
    /// The session that asked, when this answers something we sent to that very peer.
    pub asker: Option<Asker<'a>>,
    /// The session that last wrote to this peer.
    pub conversation: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker<'a> {
    pub uuid: &'a str,
    /// The label it had when it asked; someone else may have it now.
    pub label: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Deliver(Vec<String>),
    /// For one session, by uuid if it is known; goes back to its sender after the grace time.
    HoldFor(HeldFor),
    /// For whoever comes; judged again when someone does.
    HoldOpen,
    Drop,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldFor {
    Session { uuid: String },
    Label,
}

pub fn route(wanted: Destination<'_>, policy: Policy, pinned: Option<&str>, live: &[LiveSession]) -> Route {
    let is_live = |uuid: &str| live.iter().any(|session| session.uuid == uuid);
    let asker = wanted.asker.filter(|asker| wanted.to_session.is_none_or(|label| label == asker.label));
    if let Some(asker) = asker {
        // Bound to who asked, not to who has the label now.
        return if is_live(asker.uuid) {
            Route::Deliver(vec![asker.uuid.to_owned()])
        } else {
            Route::HoldFor(HeldFor::Session { uuid: asker.uuid.to_owned() })
        };
    }
    if let Some(label) = wanted.to_session {
        return match live.iter().find(|session| session.label == label) {
            Some(session) => Route::Deliver(vec![session.uuid.clone()]),
            None => Route::HoldFor(HeldFor::Label),
        };
    }
    if let Some(uuid) = wanted.conversation.filter(|uuid| is_live(uuid)) {
        return Route::Deliver(vec![uuid.to_owned()]);
    }
    if live.is_empty() {
        return Route::HoldOpen;
    }
    match policy {
        Policy::Drop => Route::Drop,
        Policy::Broadcast => Route::Deliver(live.iter().map(|session| session.uuid.clone()).collect()),
        Policy::Primary => match primary(pinned, live) {
            Some(session) => Route::Deliver(vec![session.uuid.clone()]),
            None => Route::HoldOpen,
        },
    }
}

/// The pinned one if it is live, else the lowest by natural order.
pub fn primary<'a>(pinned: Option<&str>, live: &'a [LiveSession]) -> Option<&'a LiveSession> {
    live.iter()
        .find(|session| pinned == Some(session.label.as_str()))
        .or_else(|| live.iter().min_by(|a, b| natural_order(&a.label, &b.label)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(labels: &[&str]) -> Vec<LiveSession> {
        labels
            .iter()
            .map(|label| LiveSession { uuid: format!("u-{label}"), label: (*label).to_owned() })
            .collect()
    }

    fn to(uuid: &str) -> Route {
        Route::Deliver(vec![uuid.to_owned()])
    }

    const NOTHING: Destination<'_> = Destination { to_session: None, asker: None, conversation: None };

    #[test]
    fn the_whole_table() {
        let two = live(&["claude:10", "claude:2"]);
        let asked = |uuid, label| Some(Asker { uuid, label });
        let held = |uuid: &str| Route::HoldFor(HeldFor::Session { uuid: uuid.to_owned() });
        type Case<'a> = (&'a str, Destination<'a>, Policy, Option<&'a str>, &'a [LiveSession], Route);
        let cases: Vec<Case<'_>> = vec![
            (
                "named and live",
                Destination { to_session: Some("claude:10"), ..NOTHING },
                Policy::Drop,
                None,
                &two,
                to("u-claude:10"),
            ),
            (
                "named, not live: held, not given to another",
                Destination { to_session: Some("claude:3"), conversation: Some("u-claude:2"), ..NOTHING },
                Policy::Broadcast,
                None,
                &two,
                Route::HoldFor(HeldFor::Label),
            ),
            (
                "answer goes to who asked",
                Destination { asker: asked("u-claude:10", "claude:10"), ..NOTHING },
                Policy::Primary,
                None,
                &two,
                to("u-claude:10"),
            ),
            (
                "answer to a label that someone else has now is held for who asked",
                Destination { to_session: Some("claude:2"), asker: asked("u-old", "claude:2"), ..NOTHING },
                Policy::Primary,
                None,
                &two,
                held("u-old"),
            ),
            (
                "answer that names another session goes there",
                Destination { to_session: Some("claude:2"), asker: asked("u-old", "claude:9"), ..NOTHING },
                Policy::Primary,
                None,
                &two,
                to("u-claude:2"),
            ),
            (
                "answer without a session, asker gone",
                Destination { asker: asked("u-old", "claude:2"), ..NOTHING },
                Policy::Broadcast,
                None,
                &two,
                held("u-old"),
            ),
            (
                "conversation",
                Destination { conversation: Some("u-claude:10"), ..NOTHING },
                Policy::Primary,
                None,
                &two,
                to("u-claude:10"),
            ),
            (
                "conversation of a session that is gone falls to policy",
                Destination { conversation: Some("u-old"), ..NOTHING },
                Policy::Primary,
                None,
                &two,
                to("u-claude:2"),
            ),
            ("primary by natural order", NOTHING, Policy::Primary, None, &two, to("u-claude:2")),
            ("pinned primary", NOTHING, Policy::Primary, Some("claude:10"), &two, to("u-claude:10")),
            ("pinned but gone", NOTHING, Policy::Primary, Some("claude:9"), &two, to("u-claude:2")),
            (
                "broadcast",
                NOTHING,
                Policy::Broadcast,
                None,
                &two,
                Route::Deliver(vec!["u-claude:10".into(), "u-claude:2".into()]),
            ),
            ("drop", NOTHING, Policy::Drop, None, &two, Route::Drop),
            ("nobody, primary", NOTHING, Policy::Primary, None, &[], Route::HoldOpen),
            ("nobody, broadcast", NOTHING, Policy::Broadcast, None, &[], Route::HoldOpen),
            ("nobody, drop: judged when someone comes", NOTHING, Policy::Drop, None, &[], Route::HoldOpen),
        ];
        for (name, wanted, policy, pinned, sessions, expected) in cases {
            assert_eq!(route(wanted, policy, pinned, sessions), expected, "{name}");
        }
    }
}
