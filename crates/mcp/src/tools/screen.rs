//! `screen`: what a person would see on a command's terminal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use trl_protocol::{Fault, methods};

use crate::fault;
use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct Screen;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// From `run` with interactive=true
    exec_id: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ScreenReport {
    rows: u16,
    cols: u16,
    cursor: Cursor,
    lines: Vec<String>,
    title: String,
    /// A full-screen program has the screen.
    alternate: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting_for_input: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Cursor {
    row: u16,
    col: u16,
}

impl Spec for Screen {
    const NAME: &'static str = "screen";
    const ABOUT: &'static str = "Look at the terminal of an interactive command, as a person would see it; for editors, menus and REPLs.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = Args;
    type Answer = ScreenReport;

    async fn call(args: Args, call: Call) -> Result<(String, ScreenReport), Fault> {
        let params = json!({ "exec_id": args.exec_id });
        let client = &call.guest.client;
        let seen: ScreenReport = client.call_as::<methods::ExecScreen, _>(params).await.map_err(fault::of)?;
        let mut text = seen.lines.join("\n").trim_end().to_owned();
        text.push_str(&format!(
            "\n[{}×{} screen, cursor at line {}, column {}]",
            seen.cols,
            seen.rows,
            seen.cursor.row + 1,
            seen.cursor.col + 1
        ));
        Ok((text, seen))
    }
}
