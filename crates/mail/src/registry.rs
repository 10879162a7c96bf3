//! Which label a session gets. Pure; the caller keeps it in one transaction with the claim.

use crate::label::Label;

/// A wish for a label, and what is known about who wishes.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    pub requested: Option<Label>,
    pub harness: &'a str,
    /// The last label of the same harness session, if it had one.
    pub remembered: Option<Label>,
    /// The same harness session is live in another process: that one is not to be robbed.
    pub fenced: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub label: Label,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Requested,
    Remembered { instead_of: Option<Label> },
    LowestFree { instead_of: Option<Label>, fenced: bool },
}

impl Reason {
    pub fn told(&self) -> String {
        match self {
            Reason::Requested => "requested".to_owned(),
            Reason::Remembered { instead_of: None } => "last label of this harness session".to_owned(),
            Reason::Remembered { instead_of: Some(taken) } => {
                format!("a live session holds {taken}; this is the last label of this harness session")
            }
            Reason::LowestFree { instead_of, fenced } => {
                let mut told = String::new();
                if let Some(taken) = instead_of {
                    told.push_str(&format!("a live session holds {taken}; "));
                }
                if *fenced {
                    told.push_str("another live process runs this harness session; ");
                }
                told.push_str("lowest free label");
                told
            }
        }
    }
}

/// `is_free` must hold its answer until the grant is stored.
pub fn allocate(claim: Claim<'_>, is_free: impl Fn(&Label) -> bool) -> Grant {
    let Claim { requested, harness, remembered, fenced } = claim;
    let instead_of = match requested {
        Some(label) if is_free(&label) => return Grant { label, reason: Reason::Requested },
        other => other,
    };
    if let Some(label) = remembered.filter(|label| !fenced && is_free(label)) {
        return Grant { label, reason: Reason::Remembered { instead_of } };
    }
    let lowest = (1..=u32::MAX).map(|n| Label::numbered(harness, n)).find(|label| is_free(label));
    let label = lowest.unwrap_or_else(|| Label::numbered(harness, 0));
    Grant { label, reason: Reason::LowestFree { instead_of, fenced } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn granted(requested: Option<&str>, remembered: Option<&str>, fenced: bool, taken: &[&str]) -> Grant {
        let claim = Claim {
            requested: requested.map(label),
            harness: "claude",
            remembered: remembered.map(label),
            fenced,
        };
        allocate(claim, |wish| !taken.contains(&wish.as_str()))
    }

    #[test]
    fn order_of_preference() {
        let cases = [
            (Some("reviewer"), None, false, &[][..], "reviewer", "requested"),
            (None, None, false, &[], "claude:1", "lowest free label"),
            (None, None, false, &["claude:1", "claude:2"], "claude:3", "lowest free label"),
            (None, None, false, &["claude:2"], "claude:1", "lowest free label"),
            (None, Some("claude:7"), false, &["claude:1"], "claude:7", "last label of this harness session"),
            (
                Some("reviewer"),
                Some("claude:7"),
                false,
                &["reviewer"],
                "claude:7",
                "a live session holds reviewer; this is the last label of this harness session",
            ),
            (
                Some("reviewer"),
                Some("claude:7"),
                false,
                &["reviewer", "claude:7"],
                "claude:1",
                "a live session holds reviewer; lowest free label",
            ),
            (
                None,
                Some("claude:7"),
                true,
                &["claude:7"],
                "claude:1",
                "another live process runs this harness session; lowest free label",
            ),
        ];
        for (requested, remembered, fenced, taken, expected, reason) in cases {
            let grant = granted(requested, remembered, fenced, taken);
            assert_eq!((grant.label.as_str(), grant.reason.told().as_str()), (expected, reason));
        }
    }
}
