//! Running the auto-responder's command: the message as JSON on stdin, the answer on stdout.
//!
//! The command gets an empty environment but for its search path, a private directory
//! to stand in, a process group of its own, a time limit and a bounded answer; and it is
//! confined ([`trl_confine`]) by a process that becomes it or waits for it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::config::AutoLimits;
use crate::engine::autoresponder::guards::Assignment;
use crate::engine::repeated_error::RepeatedError;
use crate::engine::{Engine, Wake};
use crate::error::MailError;

/// How much of a command's stderr is kept.
const MAX_STDERR_BYTES: usize = 64 * 1024;
/// A store that refuses tells nobody when it works again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

pub(crate) async fn run(engine: Arc<Engine>) {
    let wakeup = engine.env.wakeups.listen(Wake::Answer);
    let pool = Arc::new(Semaphore::new(engine.env.config.auto.max_running.max(1)));
    let mut running = tokio::task::JoinSet::new();
    let mut last_error = RepeatedError::default();
    loop {
        let Ok(place) = Arc::clone(&pool).acquire_owned().await else { return };
        match engine.tx(|tx| tx.take_assignment()).await {
            Ok(Some(assignment)) => {
                last_error.clear();
                let engine = Arc::clone(&engine);
                running.spawn(async move {
                    answer(&engine, assignment).await;
                    drop(place);
                });
            }
            Ok(None) => {
                last_error.clear();
                drop(place);
                wakeup.notify.notified().await;
            }
            Err(MailError::Closed) => return,
            Err(error) => {
                drop(place);
                if last_error.is_new(&error) {
                    tracing::warn!(%error, "the auto-responder could not look for mail; it looks again");
                }
                sleep(RETRY_AFTER).await;
            }
        }
        while running.try_join_next().is_some() {}
    }
}

async fn answer(engine: &Engine, assignment: Assignment) {
    let outcome = match AnswerDir::new(&engine.env.config.dir, assignment.mail_id) {
        Ok(answer_dir) => ask(&assignment, &engine.env.config.auto, &answer_dir).await,
        Err(error) => Err(error.to_string()),
    };
    let finished = engine.tx(move |tx| tx.finish_assignment(&assignment, outcome)).await;
    if let Err(error) = finished {
        tracing::warn!(%error, "an automatic answer could not be stored");
    }
}

/// A directory for one answer, gone with everything that the command left in it.
struct AnswerDir(PathBuf);

impl AnswerDir {
    fn new(dir: &Path, mail_id: i64) -> Result<AnswerDir, MailError> {
        let path = dir.join("auto").join(mail_id.to_string());
        let answer_dir = AnswerDir(path.clone());
        answer_dir.clear();
        crate::lock::private_dir(&path)?;
        Ok(answer_dir)
    }

    fn clear(&self) {
        if let Err(error) = remove_whole(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "the directory of an automatic answer could not be removed");
        }
    }
}

/// A command may leave directories that their owner cannot enter; they are opened first.
fn remove_whole(dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let mut closed = vec![dir.to_owned()];
            while let Some(dir) = closed.pop() {
                std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700))?;
                for entry in std::fs::read_dir(&dir)? {
                    let entry = entry?;
                    // Not what a link leads to.
                    if entry.file_type()?.is_dir() {
                        closed.push(entry.path());
                    }
                }
            }
            std::fs::remove_dir_all(dir)
        }
        removed => removed,
    }
}

impl Drop for AnswerDir {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The command line that confines the command, or the command itself where nothing does.
fn command_line(
    assignment: &Assignment,
    limits: &AutoLimits,
    answer_dir: &AnswerDir,
) -> Result<Command, String> {
    let Some(confiner) = &limits.confiner else {
        let (program, arguments) = assignment.command.split_first().ok_or("no command is configured")?;
        let mut command = Command::new(program);
        command.args(arguments);
        return Ok(command);
    };
    let mut command = Command::new(&confiner.program);
    command.args(&confiner.arguments);
    if assignment.network {
        command.arg("--network");
    }
    command.arg(&answer_dir.0).arg("--").args(&assignment.command);
    Ok(command)
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

async fn ask(assignment: &Assignment, limits: &AutoLimits, answer_dir: &AnswerDir) -> Result<String, String> {
    let mut child = command_line(assignment, limits, answer_dir)?
        .env_clear()
        .env("PATH", &limits.path)
        .env("HOME", &answer_dir.0)
        .env("TMPDIR", &answer_dir.0)
        .current_dir(&answer_dir.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the command could not be started: {error}"))?;
    let _group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let message = assignment.message.to_string();
    let most = limits.max_answer_bytes;
    let talk = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input may still answer.
                drop(stdin.write_all(message.as_bytes()).await);
            }
        };
        let mut text = Vec::new();
        tokio::join!(write, read_at_most(stdout, most + 1, &mut text));
        if text.len() > most {
            return Err(format!("the answer is longer than {most} bytes"));
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        Ok((text, status))
    };
    let mut stderr_text = Vec::new();
    let heard = async {
        tokio::select! {
            biased;
            () = listen(stderr, &mut stderr_text) => Err("stderr ended".to_owned()),
            said = talk => said,
        }
    };
    let (text, status) = tokio::time::timeout(limits.time_limit, heard)
        .await
        .map_err(|_| format!("the command took longer than {} s", limits.time_limit.as_secs()))??;
    if !status.success() {
        return Err(format!("the command failed: {status}{}", last_stderr_line(&stderr_text)));
    }
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    if text.is_empty() {
        return Err(format!("the command printed nothing{}", last_stderr_line(&stderr_text)));
    }
    Ok(text)
}

async fn read_at_most(stream: Option<impl AsyncRead + Unpin>, most: usize, text: &mut Vec<u8>) {
    if let Some(stream) = stream
        && let Err(error) = stream.take(most as u64).read_to_end(text).await
    {
        tracing::debug!(%error, "a command's output could not be read to its end");
    }
}

/// Keeps the beginning of stderr and discards the rest; never ends by itself.
async fn listen(stderr: Option<impl AsyncRead + Unpin>, text: &mut Vec<u8>) {
    if let Some(mut stderr) = stderr {
        read_at_most(Some(&mut stderr), MAX_STDERR_BYTES, text).await;
        drop(tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await);
    }
    std::future::pending().await
}

/// The last line on stderr, quoted, to say why there was no answer.
fn last_stderr_line(stderr_text: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr_text);
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(": {:?}", line.chars().take(200).collect::<String>()),
        None => String::new(),
    }
}
