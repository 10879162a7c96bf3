//! One command of the daemon: whether bash can read it, how it goes on, what it printed.

use base64::Engine as _;
use serde_json::json;
use trl_client::Error;
use trl_protocol::{Code, methods};

use crate::exception::Exception;
use crate::state::Shared;
use crate::text::{backslashed, plain};

/// One reply of `exec.output` holds at most this much.
const PIECE: u64 = 4 * 1024 * 1024;

/// How a wait ended.
pub(crate) enum Came {
    /// The command is over.
    End,
    /// One of the expressions was printed.
    Match {
        pattern: String,
        offset: u64,
        end: u64,
    },
    Late,
    /// The session was busy for as long as the command could wait; it never ran.
    Dropped,
}

/// A text that bash cannot read runs nothing.
pub(crate) async fn check_syntax(shared: &Shared, command: &str) -> Result<(), Exception> {
    let params = json!({
        "session_id": shared.beside().await?, "command": "exec bash -n", "stdin": format!("{command}\n"),
        "background": true, "timeout_s": 60,
    });
    let checked = shared.call::<methods::ExecRun>(params).await.map_err(Exception::of_daemon)?;
    if checked["exit_code"] == json!(0) {
        return Ok(());
    }
    let text = |name: &str| checked[name].as_str().unwrap_or_default().to_owned();
    let (stdout, stderr) = (text("stdout"), text("stderr"));
    let message = format!(
        "Error (exit code {}) while checking bash command \n{command:?}\n---- Stderr ----\n{stderr}\n---- Stdout ----\n{stdout}",
        checked["exit_code"]
    );
    let extra = json!({"bash_stdout": stdout, "bash_stderr": stderr});
    Err(Exception::swerex("BashIncorrectSyntaxError", message).with_extra_info(extra))
}

/// Waits for the end of a command or, if some are given, for an expression in its output after `from`.
pub(crate) async fn wait(
    shared: &Shared,
    exec_id: &str,
    expect: &[String],
    from: u64,
    timeout: Option<f64>,
) -> Result<Came, Exception> {
    let until = match expect {
        [] => json!({"exit": true}),
        patterns => {
            json!({"log": {"patterns": patterns, "regex": true, "stream": "stdout", "from_offset": from}})
        }
    };
    // 0 is for ever.
    let patience = timeout.map_or(0.0, |seconds| seconds.max(0.001));
    let params = json!({"exec_id": exec_id, "timeout_s": patience, "until": until});
    let matched = match shared.call::<methods::ExecWait>(params).await {
        Ok(waited) => waited["matched"]["log"].clone(),
        Err(Error::Fault(fault)) if fault.code == Code::WaitTimeout => return Ok(Came::Late),
        Err(Error::Fault(fault)) if fault.code == Code::CommandFailed => return Ok(Came::End),
        // What was dropped is kept no longer than until whoever waits has heard of it.
        Err(Error::Fault(fault)) if matches!(fault.code, Code::SessionBusy | Code::ExecNotFound) => {
            return Ok(Came::Dropped);
        }
        Err(Error::Fault(fault)) if fault.code == Code::InvalidParams => {
            return Err(Exception::builtin("ValueError", fault.message));
        }
        Err(error) => return Err(Exception::of_daemon(error)),
    };
    let number = |name: &str| matched[name].as_u64();
    let (Some(index), Some(offset), Some(end)) = (number("index"), number("offset"), number("end_offset"))
    else {
        return Ok(Came::End);
    };
    let pattern = usize::try_from(index).ok().and_then(|index| expect.get(index));
    Ok(Came::Match { pattern: pattern.cloned().unwrap_or_default(), offset, end })
}

pub(crate) async fn exit_code(shared: &Shared, exec_id: &str) -> Result<Option<i64>, Exception> {
    let info =
        shared.call::<methods::ExecInfo>(json!({"exec_id": exec_id})).await.map_err(Exception::of_daemon)?;
    Ok(info["exit_code"].as_i64())
}

/// What the terminal showed between two offsets, as plain text.
pub(crate) async fn read(
    shared: &Shared,
    exec_id: &str,
    from: u64,
    to: Option<u64>,
) -> Result<String, Exception> {
    let mut bytes = output(shared, exec_id, "stdout", from).await?;
    if let Some(length) = to.map(|to| to.saturating_sub(from)) {
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    }
    Ok(plain(&backslashed(&bytes)))
}

/// All that is kept of a stream from an offset on.
pub(crate) async fn output(
    shared: &Shared,
    exec_id: &str,
    stream: &str,
    from: u64,
) -> Result<Vec<u8>, Exception> {
    let mut bytes = Vec::new();
    let mut offset = from;
    loop {
        let params = json!({
            "exec_id": exec_id, "stream": stream, "offset": offset, "limit": PIECE, "encoding": "base64",
        });
        let reply = shared.call::<methods::ExecOutput>(params).await.map_err(Exception::of_daemon)?;
        let piece = reply["base64"].as_str().unwrap_or_default();
        bytes.extend(base64::engine::general_purpose::STANDARD.decode(piece).map_err(Exception::internal)?);
        let next = reply["next_offset"].as_u64().unwrap_or(offset);
        if next <= offset || next >= reply["total_bytes"].as_u64().unwrap_or(0) {
            return Ok(bytes);
        }
        offset = next;
    }
}
