//! Where a new session runs: a runtime that the request names, or the one with the most room
//! among those that it leaves open (`any`, `label:NAME`).

use std::sync::Arc;

use trl_protocol::system::{RuntimeFound, RuntimeState};
use trl_protocol::{Code, Fault};

use crate::config::NamedRuntime;
use crate::ops::system::runtimes;
use crate::place::Place;
use crate::runtime::Inner;

/// The place of a new session, and why that one if the request left it open.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) place: Place,
    pub(crate) reason: Option<String>,
    /// What the configuration says of it, if it was chosen by its name there.
    pub(crate) named: Option<NamedRuntime>,
}

pub(crate) fn choose(runtime: &Inner, asked: Option<&str>) -> Result<Choice, Fault> {
    let Some(asked) = asked else {
        let place = Place::Hosts(Arc::clone(runtime.backends.default()));
        return Ok(Choice { place, reason: None, named: None });
    };
    let label = match asked {
        "any" => None,
        _ => match asked.strip_prefix("label:") {
            Some(label) => Some(label),
            None => {
                let place = Place::find(runtime, asked)?;
                check_room(runtime, asked, &place)?;
                return Ok(Choice { place, reason: None, named: named(runtime, asked) });
            }
        },
    };
    let found = runtimes::perform(runtime).runtimes;
    let best = best(&found, label).ok_or_else(|| none(&found, asked, label))?;
    let (name, free) = (&best.name, free(best));
    let reason = match label {
        Some(label) => format!("{name} has the label {label:?} and room for {free} more sessions"),
        None => format!("{name} has room for {free} more sessions, more than any other that can be reached"),
    };
    let place = Place::find(runtime, name)?;
    Ok(Choice { place, reason: Some(reason), named: named(runtime, name) })
}

fn named(runtime: &Inner, name: &str) -> Option<NamedRuntime> {
    runtime.config.runtimes.iter().find(|named| named.name == name).cloned()
}

fn free(found: &RuntimeFound) -> usize {
    found.max_sessions.saturating_sub(found.sessions)
}

/// The one with the most room; one that is known to be ready comes before one that nobody has looked at.
/// A runtime that somebody else granted is used only by its name: its owner sees what runs there.
fn best<'a>(found: &'a [RuntimeFound], label: Option<&str>) -> Option<&'a RuntimeFound> {
    let fits = |found: &&RuntimeFound| {
        label.is_none_or(|label| found.labels.iter().any(|it| it == label))
            && found.granted_by.is_none()
            && found.state != RuntimeState::Unreachable
            && free(found) > 0
    };
    let rank = |found: &&RuntimeFound| (found.state == RuntimeState::Ready, free(found));
    // Among equals the first, which is this machine if it is among them.
    found.iter().filter(fits).rev().max_by_key(rank)
}

fn none(found: &[RuntimeFound], asked: &str, label: Option<&str>) -> Fault {
    let has_label =
        |found: &RuntimeFound| label.is_none_or(|label| found.labels.iter().any(|it| it == label));
    let meant: Vec<String> = found
        .iter()
        .filter(|found| has_label(found))
        .map(|found| match &found.reason {
            Some(reason) => format!("{}: {reason}", found.name),
            None => format!("{}: no room for more than {} sessions", found.name, found.max_sessions),
        })
        .collect();
    let details = serde_json::json!({ "runtime": asked });
    if meant.is_empty() {
        let mut labels: Vec<&str> =
            found.iter().flat_map(|found| &found.labels).map(String::as_str).collect();
        labels.sort_unstable();
        labels.dedup();
        let message = format!("no runtime has the label of {asked:?}; labels: {}", labels.join(", "));
        return Fault::new(Code::RuntimeNotFound, message).with_details(details);
    }
    let message = format!("no runtime can take a session now: {}", meant.join("; "));
    Fault::new(Code::RuntimeUnavailable, message).with_details(details)
}

/// A runtime of the configuration may have fewer sessions than the daemon.
fn check_room(runtime: &Inner, asked: &str, place: &Place) -> Result<(), Fault> {
    let named = runtime.config.runtimes.iter().find(|named| named.name == asked || named.target == asked);
    match named.and_then(|named| named.max_sessions) {
        Some(most) if runtime.registry.count_on(place.name()) >= most => Err(Fault::new(
            Code::MaxSessionsReached,
            format!("the runtime {asked:?} already has {most} sessions, as many as the configuration allows; end one"),
        )
        .with_details(serde_json::json!({ "runtime": asked, "max_sessions": most }))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::system::RuntimeKind;

    fn found(
        name: &str,
        state: RuntimeState,
        sessions: usize,
        max_sessions: usize,
        labels: &[&str],
    ) -> RuntimeFound {
        RuntimeFound {
            name: name.into(),
            target: None,
            kind: RuntimeKind::Ssh,
            state,
            reason: None,
            since: String::new(),
            available: true,
            default: false,
            version: String::new(),
            hostname: String::new(),
            os: String::new(),
            arch: String::new(),
            cpus: 1,
            shells: Vec::new(),
            isolation: Vec::new(),
            active_sessions: sessions,
            sessions,
            max_sessions,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            memory_bytes: None,
            load: None,
            rtt_ms: None,
            granted_by: None,
            expires_at: None,
        }
    }

    #[test]
    fn the_one_with_the_most_room_that_can_be_reached() {
        use RuntimeState::{Ready, Unknown, Unreachable};
        let all = [
            found("local", Ready, 10, 64, &[]),
            found("full", Ready, 8, 8, &["gpu"]),
            found("small", Ready, 0, 8, &["gpu"]),
            found("away", Unreachable, 0, 100, &["gpu"]),
            found("new", Unknown, 0, 100, &["gpu", "big"]),
            RuntimeFound { granted_by: Some("somebody".into()), ..found("theirs", Ready, 0, 999, &["gpu"]) },
        ];
        let name = |label| best(&all, label).map(|found| found.name.as_str());
        assert_eq!(name(None), Some("local"));
        assert_eq!(name(Some("gpu")), Some("small"), "ready comes before unknown");
        assert_eq!(name(Some("big")), Some("new"));
        assert_eq!(name(Some("none")), None);
        assert!(none(&all, "label:none", Some("none")).message.contains("big, gpu"));
        let away = none(&all[3..4], "label:gpu", Some("gpu"));
        assert_eq!(away.code, Code::RuntimeUnavailable);
    }
}
