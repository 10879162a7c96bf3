//! Waking an agent that sits idle at a terminal of ours when mail comes for it.
//!
//! The daemon types one fixed line, never anything that came with the mail, and only where
//! nobody is disturbed: a command runs on the terminal, its screen does not change, and its
//! cursor stands behind a prompt with nothing typed there. A shell's prompt is none: nobody
//! sits there who could read. Each message wakes once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use trl_mail::{IdleAgent, IdleAgents};
use trl_protocol::exec::{Encoding, ExecParams, ExecState, Screen, ScreenParams, WriteParams};
use trl_protocol::{Code, Fault};

use crate::caller::Presence;
use crate::ops::exec::{info, screen, write};
use crate::runtime::Inner;

/// All that is ever typed. To a shell that gets it in spite of everything, it is a command that does nothing.
pub(crate) const TRIGGER: &str = ": you have new mail, read it with the inbox tool or with trl inbox";
/// A screen that stayed the same for so long is idle.
const STILL: Duration = Duration::from_millis(1500);
/// Programs take what comes at once for a paste, in which Enter only begins a new line.
const BEFORE_ENTER: Duration = Duration::from_millis(300);
/// Who was busy is looked at again after so long: a screen does not tell when it becomes still.
const AGAIN: Duration = Duration::from_secs(5);
/// What a program that takes requests shows before the place for one. No `$`, `%`, `#` or `:`.
const PROMPTS: [char; 7] = ['>', '❯', '›', '»', '→', '➜', '▌'];

pub(crate) async fn watch(inner: Arc<Inner>) {
    let opened = tokio::select! {
        mail = inner.mailroom.opened() => mail,
        () = inner.stopping() => return,
    };
    let idle_agents = Arc::new(opened.idle_agents());
    drop(opened);
    let mut told: HashMap<String, i64> = HashMap::new();
    let (mut known, mut busy) = (Vec::new(), false);
    loop {
        let found = tokio::select! {
            found = idle_agents.beyond(&known) => found,
            () = sleep(AGAIN), if busy => idle_agents.now().await,
            () = inner.stopping() => return,
        };
        let found = match found {
            Ok(found) => found,
            Err(fault) if fault.code == Code::ShuttingDown => return,
            Err(fault) => {
                tracing::warn!(message = %fault.message, "who has mail could not be seen; tried again later");
                sleep(AGAIN).await;
                continue;
            }
        };
        told.retain(|uuid, _| found.iter().any(|idle_agent| idle_agent.uuid == *uuid));
        let mut waking = JoinSet::new();
        for idle_agent in
            found.iter().filter(|idle_agent| told.get(&idle_agent.uuid) != Some(&idle_agent.newest))
        {
            waking.spawn(wake(Arc::clone(&inner), Arc::clone(&idle_agents), idle_agent.clone()));
        }
        busy = false;
        // What is not awaited to its end is given up with the set.
        while let Some(woken) = tokio::select! {
            woken = waking.join_next() => woken,
            () = inner.stopping() => return,
        } {
            match woken {
                Ok(Ok(Woken::Told(idle_agent))) => drop(told.insert(idle_agent.uuid, idle_agent.newest)),
                Ok(Ok(Woken::NotNow)) => busy = true,
                Ok(Ok(Woken::Awake)) => {}
                Ok(Err(fault)) => {
                    tracing::debug!(code = %fault.code, "no client is attached to the terminal")
                }
                Err(error) => tracing::warn!(%error, "an agent could not be woken"),
            }
        }
        known = found;
    }
}

enum Woken {
    Told(IdleAgent),
    /// It has taken its mail by itself.
    Awake,
    /// Somebody works there, or has begun to type.
    NotNow,
}

async fn wake(
    inner: Arc<Inner>,
    idle_agents: Arc<IdleAgents>,
    idle_agent: IdleAgent,
) -> Result<Woken, Fault> {
    let shown = || async {
        let params = ScreenParams { exec_id: None, session_id: Some(idle_agent.terminal.to_string()) };
        screen::perform(&inner, &params).await
    };
    let before = shown().await?;
    let exec_id = before.exec_id.to_string();
    let about = info::perform(&inner, &ExecParams { exec_id: exec_id.clone() }).await?;
    if about.state != ExecState::Running {
        return Err(Fault::invalid("the command on the terminal is over"));
    }
    sleep(STILL).await;
    let after = shown().await?;
    if before != after || !is_input_empty(&after) {
        return Ok(Woken::NotNow);
    }
    if !idle_agents.now().await?.iter().any(|still| still.uuid == idle_agent.uuid) {
        return Ok(Woken::Awake);
    }
    let keys = |data: &str| WriteParams {
        exec_id: exec_id.clone(),
        data: data.to_owned(),
        encoding: Encoding::Utf8,
        eof: false,
        write_id: None,
        ..WriteParams::default()
    };
    let nobody = Presence::new().caller(None);
    write::perform(&inner, keys(TRIGGER), &nobody).await?;
    sleep(BEFORE_ENTER).await;
    write::perform(&inner, keys("\r"), &nobody).await?;
    idle_agents.told(&idle_agent).await?;
    tracing::info!(session = %idle_agent.terminal, "an idle agent was notified of its mail");
    Ok(Woken::Told(idle_agent))
}

/// Whether the cursor stands behind a prompt with nothing else on that line.
fn is_input_empty(screen: &Screen) -> bool {
    let Some(line) = screen.lines.get(usize::from(screen.cursor.row)) else { return false };
    let column = usize::from(screen.cursor.col);
    let before: String = line.chars().take(column).collect();
    let is_frame = |c: char| c.is_whitespace() || matches!(c, '|' | '│' | '┃' | '║');
    before.trim_matches(is_frame).ends_with(PROMPTS) && line.chars().skip(column).all(is_frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::exec::Cursor;

    #[test]
    fn a_line_with_a_prompt_alone_is_empty() {
        for (line, col, empty) in [
            ("> ", 2, true),
            (">", 2, true),
            ("│ > ", 4, true),
            ("│ >                 │", 4, true),
            ("❯", 2, true),
            ("▌", 1, true),
            ("aider> ", 7, true),
            ("", 0, false),
            ("text", 0, false),
            ("user@host:~$ ", 13, false),
            ("Password:", 9, false),
            ("> half a sent", 13, false),
            ("> half a sentence", 2, false),
            ("│ > hello │", 9, false),
            ("Thinking…", 9, false),
        ] {
            let screen = Screen {
                exec_id: "e-00000001-1".parse().unwrap(),
                rows: 1,
                cols: 80,
                cursor: Cursor { row: 0, col, visible: true },
                lines: vec![line.to_owned()],
                title: String::new(),
                alternate: false,
                bracketed_paste: false,
                application_cursor: false,
                waiting_for_input: None,
            };
            assert_eq!(is_input_empty(&screen), empty, "{line:?} at {col}");
        }
    }
}
