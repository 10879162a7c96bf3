//! Running the auto-responder's command: the message as JSON on stdin, the answer on stdout.
//!
//! The command gets an empty environment but for its search path, a private directory
//! to stand in, a process group of its own, a time limit and a bounded answer.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::answer::Errand;
use super::{Engine, Wake};
use crate::config::AutoLimits;
use crate::error::MailError;

pub(super) async fn run(engine: Arc<Engine>) {
    let bell = engine.env.switchboard.listen(Wake::Answer);
    let pool = Arc::new(Semaphore::new(engine.env.config.auto.max_running.max(1)));
    let mut running = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&pool).acquire_owned().await else { return };
        match engine.tx(|tx| tx.take_errand()).await {
            Ok(Some(errand)) => {
                let engine = Arc::clone(&engine);
                running.spawn(async move {
                    answer(&engine, errand).await;
                    drop(place);
                });
            }
            Ok(None) => {
                drop(place);
                bell.notify.notified().await;
            }
            Err(MailError::Closed) => return,
            Err(error) => {
                drop(place);
                tracing::warn!(%error, "the auto-responder could not look for mail");
                bell.notify.notified().await;
            }
        }
        while running.try_join_next().is_some() {}
    }
}

async fn answer(engine: &Engine, errand: Errand) {
    let dir = engine.env.config.dir.join("auto");
    let outcome = ask(&errand, &engine.env.config.auto, &dir).await;
    let finished = engine.tx(move |tx| tx.finish_errand(&errand, outcome)).await;
    if let Err(error) = finished {
        tracing::warn!(%error, "an automatic answer could not be stored");
    }
}

/// Ends the command with everything it started, however we stop waiting for it.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            // The usual case: it ended in good order and is gone.
            tracing::trace!(%error, "an auto-responder's command left nothing behind");
        }
    }
}

async fn ask(errand: &Errand, limits: &AutoLimits, dir: &Path) -> Result<String, String> {
    let (program, arguments) = errand.command.split_first().ok_or("no command is configured")?;
    crate::lock::private_dir(dir).map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", &limits.path)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the command could not be started: {error}"))?;
    let _group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let message = errand.message.to_string();
    let talk = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input may still answer.
                drop(stdin.write_all(message.as_bytes()).await);
            }
        };
        let read = async {
            let mut text = Vec::new();
            match stdout {
                Some(stdout) => {
                    let limit = limits.max_answer_bytes as u64 + 1;
                    stdout.take(limit).read_to_end(&mut text).await.map(|_| text)
                }
                None => Ok(text),
            }
        };
        let ((), text) = tokio::join!(write, read);
        let text = text.map_err(|error| format!("the answer could not be read: {error}"))?;
        if text.len() > limits.max_answer_bytes {
            return Err(format!("the answer is longer than {} bytes", limits.max_answer_bytes));
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        Ok((text, status))
    };
    let (text, status) = tokio::time::timeout(limits.time_limit, talk)
        .await
        .map_err(|_| format!("the command took longer than {} s", limits.time_limit.as_secs()))??;
    if !status.success() {
        return Err(format!("the command failed: {status}"));
    }
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    if text.is_empty() { Err("the command said nothing".to_owned()) } else { Ok(text) }
}
