//! The auto-responder: how it is switched, and how it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Token;

in_a_sessions_name! {
    /// `action`, or one of the three words as a param of its own; with none of them, `status`.
    pub struct AutorespondParams {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub action: Option<Switch>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub on: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub off: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub status: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub command: Option<AnswerCommand>,
        /// Let the command use the network; it cannot otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub network: Option<bool>,
    }
}

impl AutorespondParams {
    /// The one thing that is asked; `None` if it is several.
    pub fn asked(&self) -> Option<Switch> {
        let words = [(self.on, Switch::On), (self.off, Switch::Off), (self.status, Switch::Status)];
        let said = words.into_iter().filter(|(said, _)| *said).map(|(_, switch)| switch);
        let mut asked: Vec<Switch> = self.action.into_iter().chain(said).collect();
        asked.dedup();
        match asked[..] {
            [] => Some(Switch::Status),
            [one] => Some(one),
            _ => None,
        }
    }
}

/// What answers: a program and its arguments, or a line for `/bin/sh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AnswerCommand {
    Words(Vec<String>),
    Line(String),
}

impl AnswerCommand {
    pub fn words(self) -> Vec<String> {
        match self {
            AnswerCommand::Words(words) => words,
            AnswerCommand::Line(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    On,
    Off,
    Status,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Autorespond {
    pub on: bool,
    pub command: Option<Vec<String>>,
    /// Whether the command may use the network.
    pub network: bool,
    /// What keeps the command to its one task: `namespaces+landlock+seccomp`, `landlock+seccomp` where namespaces are not allowed, or `none` where the system has neither.
    pub sandbox: String,
    pub answered_today: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_auto_responder() {
        let on = AutorespondParams { on: true, ..AutorespondParams::default() };
        let cases = [
            (AutorespondParams::default(), Some(Switch::Status)),
            (on.clone(), Some(Switch::On)),
            (AutorespondParams { action: Some(Switch::On), ..on.clone() }, Some(Switch::On)),
            (AutorespondParams { action: Some(Switch::Off), ..on.clone() }, None),
            (AutorespondParams { off: true, ..on }, None),
        ];
        for (params, expected) in cases {
            assert_eq!(params.asked(), expected, "{params:?}");
        }
    }
}
