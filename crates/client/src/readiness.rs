//! The one line that a daemon started on demand writes to its stdout.
//!
//! The line comes when the socket accepts connections or when it is sure never
//! to; the pipe's end without a line means that the daemon died. Nobody polls.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    Listening {
        pid: u32,
    },
    Refused {
        message: String,
        #[serde(default)]
        help: Option<String>,
    },
}

impl Readiness {
    /// The line as it is written, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    pub(crate) fn from_line(line: &[u8]) -> Option<Readiness> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_went() {
        for said in [
            Readiness::Listening { pid: 7 },
            Readiness::Refused { message: "no\nplace".into(), help: Some("make room".into()) },
        ] {
            let line = said.to_line();
            assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            assert_eq!(Readiness::from_line(&line), Some(said));
        }
        assert_eq!(Readiness::from_line(b""), None);
    }
}
