//! The terminal of a command: its size, and what is on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExecId;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeParams {
    pub exec_id: String,
    /// 1 to 1000.
    pub rows: u16,
    /// 1 to 1000.
    pub cols: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resized {
    pub exec_id: ExecId,
    pub rows: u16,
    pub cols: u16,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScreenParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// A session's id or name: its command on a terminal, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// What a person would see on the terminal of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Screen {
    pub exec_id: ExecId,
    pub rows: u16,
    pub cols: u16,
    pub cursor: Cursor,
    /// As many as `rows`, without blanks at their ends.
    pub lines: Vec<String>,
    pub title: String,
    /// A full-screen program has the alternate screen.
    pub alternate: bool,
    /// The program wants to know where pasted text begins and ends.
    #[serde(default)]
    pub bracketed_paste: bool,
    /// The program wants arrows as `ESC O A` instead of `ESC [ A`.
    #[serde(default)]
    pub application_cursor: bool,
    /// The prompt, if the command reads from its terminal and nobody has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_input: Option<String>,
}

/// Counted from 0 at the top left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    pub row: u16,
    pub col: u16,
    pub visible: bool,
}
