//! A session of SWE-ReX: a living bash, and the program that its last command left running, if any.
//!
//! The other side thinks of one terminal: it reads on from where it stopped reading, and lines go to whatever
//! runs. Here each command has a terminal output of its own; `Running` remembers which one is read, and up
//! to where.

use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};
use trl_client::Error;
use trl_protocol::{Code, methods};

use crate::command::{Came, check_syntax, exit_code, read, wait};
use crate::exception::Exception;
use crate::requests::{Bash, Check, Create, Interrupt};
use crate::state::Shared;
use crate::text::quoted;
use crate::verdict::{PROMPT, ignoring, judged, observation};

/// A command that printed what was expected may end by itself within this time.
const SOON_S: f64 = 1.0;
/// How long ending a command by force may take.
const FORCE_S: f64 = 15.0;
/// Without a time of its own, a command waits for its turn this long.
const TURN_S: f64 = 86_400.0;

#[derive(Debug, Default)]
pub(crate) struct Shell {
    id: OnceCell<String>,
    running: Mutex<Option<Running>>,
}

/// A command that has not ended when it was last looked at.
#[derive(Debug, Clone)]
struct Running {
    exec_id: String,
    /// What was read of its output.
    read: u64,
}

impl Shell {
    /// Makes the session and reads the files that it begins with. Returns what that printed.
    pub(crate) async fn start(&self, shared: &Shared, create: &Create) -> Result<String, Exception> {
        let how = json!({"shell": "bash", "rc": true, "timeout_s": 0, "idle_timeout_s": 0});
        let id = shared.create(how).await?;
        self.id.set(id).map_err(Exception::internal)?;
        // The shell's own start-up files count for nobody's time.
        let ready = self.begin(shared, ":", TURN_S).await?;
        wait(shared, &ready, &[], 0, None).await?;
        if create.startup_source.is_empty() {
            return Ok(String::new());
        }
        let sources: Vec<_> =
            create.startup_source.iter().map(|path| format!("source {}", quoted(path))).collect();
        let exec_id = self.begin(shared, &sources.join(" ; "), TURN_S).await?;
        match wait(shared, &exec_id, &[], 0, Some(create.startup_timeout)).await? {
            Came::End | Came::Match { .. } => read(shared, &exec_id, 0, None).await,
            Came::Late | Came::Dropped => {
                Err(Exception::expectation_timeout("Timeout exceeded while reading start-up files"))
            }
        }
    }

    fn id(&self) -> Result<&str, Exception> {
        let missing = || Exception::swerex("SessionNotInitializedError", "shell not initialized");
        self.id.get().map(String::as_str).ok_or_else(missing)
    }

    pub(crate) async fn close(&self, shared: &Shared) {
        if let Some(id) = self.id.get() {
            shared.destroy(id).await;
        }
    }

    /// Starts a command on the terminal, its two streams in order.
    async fn begin(&self, shared: &Shared, command: &str, patience: f64) -> Result<String, Exception> {
        let params = json!({
            "session_id": self.id()?, "command": command, "tty": true, "merge_stderr": true,
            "background": false, "timeout_s": 0, "wait_s": patience,
        });
        match shared.call::<methods::ExecStart>(params).await {
            Ok(started) => Ok(started["exec_id"].as_str().unwrap_or_default().to_owned()),
            Err(Error::Fault(fault)) if fault.code == Code::SessionBusy => Err(dropped(command, patience)),
            Err(error) => Err(Exception::of_daemon(error)),
        }
    }

    pub(crate) async fn run(&self, shared: &Shared, action: &Bash) -> Result<Value, Exception> {
        if action.is_interactive_command || action.is_interactive_quit {
            self.interactive(shared, action).await
        } else {
            self.normal(shared, action).await
        }
    }

    async fn normal(&self, shared: &Shared, action: &Bash) -> Result<Value, Exception> {
        let Bash { command, timeout, expect, .. } = action;
        check_syntax(shared, command).await?;
        if command.trim().is_empty() {
            return Ok(observation("", ignoring(action, Some(0)), PROMPT));
        }
        let exec_id = self.begin(shared, command, timeout.unwrap_or(TURN_S)).await?;
        match wait(shared, &exec_id, expect, 0, *timeout).await? {
            Came::End => {
                *self.running.lock().await = None;
                let output = read(shared, &exec_id, 0, None).await?;
                let exit_code = exit_code(shared, &exec_id).await?;
                judged(action, &output, exit_code, PROMPT)
            }
            Came::Match { pattern, offset, end } => {
                let running = Running { exec_id: exec_id.clone(), read: end };
                *self.running.lock().await = Some(running);
                let output = read(shared, &exec_id, 0, Some(offset)).await?;
                self.after_match(shared, action, &exec_id, output, &pattern, end).await
            }
            Came::Late => Err(self.late(shared, action, exec_id).await),
            Came::Dropped => Err(dropped(command, timeout.unwrap_or(TURN_S))),
        }
    }

    /// The exit status of a command that printed what was expected, if it ends soon.
    async fn after_match(
        &self,
        shared: &Shared,
        action: &Bash,
        exec_id: &str,
        mut output: String,
        pattern: &str,
        end: u64,
    ) -> Result<Value, Exception> {
        if action.check == Check::Ignore {
            return Ok(observation(&output, None, pattern));
        }
        match wait(shared, exec_id, &[], 0, Some(SOON_S)).await? {
            Came::End => {
                *self.running.lock().await = None;
                output.push_str(&read(shared, exec_id, end, None).await?);
                judged(action, &output, exit_code(shared, exec_id).await?, pattern)
            }
            Came::Match { .. } | Came::Late | Came::Dropped => judged(action, &output, None, pattern),
        }
    }

    /// The command goes on, for an interrupt to end; one that waited for its turn is dropped.
    async fn late(&self, shared: &Shared, action: &Bash, exec_id: String) -> Exception {
        let seconds = action.timeout.unwrap_or_default();
        let info = shared.call::<methods::ExecInfo>(json!({"exec_id": exec_id})).await;
        match info.unwrap_or_default()["state"].as_str() {
            Some("queued") => {
                // If its turn comes this very moment, it runs as it was asked to.
                let _ = shared.call::<methods::ExecCancel>(json!({"exec_id": exec_id})).await;
                dropped(&action.command, seconds)
            }
            // It was dropped at this moment; what ran before it still runs.
            None => dropped(&action.command, seconds),
            Some(_) => {
                let mut running = self.running.lock().await;
                if running.as_ref().is_none_or(|running| running.exec_id != exec_id) {
                    *running = Some(Running { exec_id, read: 0 });
                }
                let command = &action.command;
                let message = format!("timeout after {seconds} seconds while running command {command:?}");
                Exception::swerex("CommandTimeoutError", message)
            }
        }
    }

    /// What still runs, if anything does.
    async fn still_running(&self, shared: &Shared) -> Option<Running> {
        let running = self.running.lock().await.clone()?;
        let info = shared.call::<methods::ExecInfo>(json!({"exec_id": running.exec_id})).await.ok()?;
        (info["state"] == json!("running")).then_some(running)
    }

    /// A line for the program that runs, or the program itself.
    async fn interactive(&self, shared: &Shared, action: &Bash) -> Result<Value, Exception> {
        let running = match self.still_running(shared).await {
            Some(running) => {
                let line = json!({"exec_id": running.exec_id, "data": format!("{}\n", action.command)});
                shared.call::<methods::ExecWrite>(line).await.map_err(Exception::of_daemon)?;
                running
            }
            None => {
                let exec_id = self.begin(shared, &action.command, action.timeout.unwrap_or(TURN_S)).await?;
                Running { exec_id, read: 0 }
            }
        };
        *self.running.lock().await = Some(running.clone());
        let Running { exec_id, read: from } = running;
        let (output, seen) = match wait(shared, &exec_id, &action.expect, from, action.timeout).await? {
            Came::End => {
                *self.running.lock().await = None;
                (read(shared, &exec_id, from, None).await?, PROMPT.to_owned())
            }
            Came::Match { pattern, offset, end } => {
                let output = read(shared, &exec_id, from, Some(offset)).await?;
                *self.running.lock().await = Some(Running { exec_id, read: end });
                (output, pattern)
            }
            Came::Late => return Err(self.late(shared, action, exec_id).await),
            Came::Dropped => {
                *self.running.lock().await = None;
                return Err(dropped(&action.command, action.timeout.unwrap_or(TURN_S)));
            }
        };
        // The terminal may have shown the line that was typed.
        let trimmed = output.trim_start();
        let output = match action.is_interactive_command {
            true => trimmed.strip_prefix(action.command.as_str()).unwrap_or(trimmed).trim().to_owned(),
            false => output,
        };
        Ok(observation(&output, Some(0), &seen))
    }

    /// Ctrl-C, as often as asked; then by force, so that the shell is free again.
    pub(crate) async fn interrupt(&self, shared: &Shared, action: &Interrupt) -> Result<Value, Exception> {
        self.id()?;
        let Some(Running { exec_id, read: from }) = self.still_running(shared).await else {
            return Ok(observation("", Some(0), PROMPT));
        };
        let mut came = Came::Late;
        for attempt in 0..=action.n_retry {
            // A command that ends at this moment takes no more keys; the wait says so.
            let (_, patience) = match attempt == action.n_retry {
                false => {
                    let params = json!({"exec_id": exec_id, "data": "\u{3}"});
                    (shared.call::<methods::ExecWrite>(params).await, action.timeout)
                }
                true => (shared.call::<methods::ExecCancel>(json!({"exec_id": exec_id})).await, FORCE_S),
            };
            came = wait(shared, &exec_id, &action.expect, from, Some(patience)).await?;
            if !matches!(came, Came::Late | Came::Dropped) {
                break;
            }
        }
        let (end, seen) = match came {
            Came::End => (None, PROMPT.to_owned()),
            Came::Match { pattern, offset, end } => {
                *self.running.lock().await = Some(Running { exec_id: exec_id.clone(), read: end });
                (Some(offset), pattern)
            }
            Came::Late | Came::Dropped => {
                return Err(Exception::expectation_timeout("Failed to interrupt session"));
            }
        };
        let output = read(shared, &exec_id, from, end).await?;
        if end.is_none() {
            *self.running.lock().await = None;
        }
        Ok(observation(output.trim(), Some(0), &seen))
    }
}

/// Another command ran for as long as this one could wait for its turn.
fn dropped(command: &str, patience: f64) -> Exception {
    let message = format!(
        "timeout after {patience} seconds while running command {command:?}: an earlier command still runs; interrupt it first"
    );
    Exception::swerex("CommandTimeoutError", message)
}
