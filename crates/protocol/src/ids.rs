//! Names of things: sessions, commands, and the names people give to sessions.
//!
//! A command's id carries its session's, so any daemon can route it without a table.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Variables that tell programs in a session which one it is (id, name) and where its daemon listens.
pub const IDENTITY: [&str; 3] = ["TRL_SESSION_ID", "TRL_SESSION_NAME", "TRL_SOCKET_PATH"];

/// `s-` and eight hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct SessionId(pub u32);

/// `e-`, the session's eight hex digits, `-`, and the command's number in that session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ExecId {
    pub session: SessionId,
    pub number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadId(pub String);

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an id of this kind", self.0)
    }
}

fn eight_hex(text: &str) -> Option<u32> {
    let well_formed = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if well_formed { u32::from_str_radix(text, 16).ok() } else { None }
}

impl FromStr for SessionId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        text.strip_prefix("s-").and_then(eight_hex).map(SessionId).ok_or_else(|| BadId(text.to_owned()))
    }
}

impl FromStr for ExecId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let parse = || {
            let (session, number) = text.strip_prefix("e-")?.split_once('-')?;
            if number.starts_with('+') || (number.len() > 1 && number.starts_with('0')) {
                return None;
            }
            Some(ExecId { session: SessionId(eight_hex(session)?), number: number.parse().ok()? })
        };
        parse().ok_or_else(|| BadId(text.to_owned()))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s-{:08x}", self.0)
    }
}

impl fmt::Display for ExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e-{:08x}-{}", self.session.0, self.number)
    }
}

macro_rules! string_like {
    ($($id:ident),*) => {$(
        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl TryFrom<String> for $id {
            type Error = BadId;
            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}
string_like!(SessionId, ExecId);

/// Whether people may call a session this: `[A-Za-z0-9._:-]{1,64}`, not only dots,
/// and nothing that could be taken for a session id.
pub fn is_session_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
        && !name.bytes().all(|b| b == b'.')
        && name.parse::<SessionId>().is_err()
}

/// Whether a shell can hold a variable of this name.
pub fn is_env_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_a_round_trip_and_nothing_else_passes() {
        let exec: ExecId = "e-00c0ffee-17".parse().unwrap();
        assert_eq!((exec.session, exec.number), (SessionId(0x00c0_ffee), 17));
        assert_eq!(exec.to_string(), "e-00c0ffee-17");
        for bad in [
            "",
            "s-",
            "s-123",
            "s-123456789",
            "s-ABCDEF00",
            "e-00c0ffee",
            "e-00c0ffee-",
            "e-00c0ffee-+1",
            "e-00c0ffee-01",
            "x",
        ] {
            assert!(bad.parse::<SessionId>().is_err() && bad.parse::<ExecId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_people_may_and_may_not_give() {
        for good in ["a", "build", "claude:2", "x.y-z_"].iter().map(|n| n.replace('_', "-")) {
            assert!(is_session_name(&good), "{good}");
        }
        for bad in ["", ".", "..", "a b", " a", "a/b", "s-00000000", "é", &"x".repeat(65)] {
            assert!(!is_session_name(bad), "{bad}");
        }
    }
}
