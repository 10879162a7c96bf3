//! `/execute`: a command without a session. It runs beside a session of the server's own, so that what it
//! leaves in the background goes on.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use trl_protocol::methods;

use crate::exception::Exception;
use crate::state::Shared;
use crate::text::{backslashed, quoted};

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    Line(String),
    List(Vec<String>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Execute {
    command: Words,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default)]
    shell: bool,
    #[serde(default)]
    check: bool,
    #[serde(default)]
    error_msg: String,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    merge_output_streams: bool,
}

impl Execute {
    /// The program and its arguments. With `shell`, a text is read by `/bin/sh`.
    fn argv(&self) -> Vec<String> {
        match (&self.command, self.shell) {
            (Words::Line(line), true) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
            (Words::List(words), true) => {
                let first = ["/bin/sh".to_owned(), "-c".to_owned()];
                first.into_iter().chain(words.iter().cloned()).collect()
            }
            (Words::Line(line), false) => vec![line.clone()],
            (Words::List(words), false) => words.clone(),
        }
    }

    /// One line for the session's shell, which becomes the program.
    fn line(&self, argv: &[String]) -> String {
        let mut words: Vec<String> = Vec::new();
        if let Some(env) = &self.env {
            words.extend(["env".to_owned(), "-i".to_owned()]);
            words.extend(env.iter().map(|(name, value)| quoted(&format!("{name}={value}"))));
        }
        words.extend(argv.iter().map(|word| quoted(word)));
        let merged = if self.merge_output_streams { " 2>&1" } else { "" };
        format!("exec {}{merged} </dev/null", words.join(" "))
    }

    fn said(&self) -> String {
        match &self.command {
            Words::Line(line) => format!("{line:?}"),
            Words::List(words) => format!("{words:?}"),
        }
    }
}

/// A program that is not there is an exception, not an exit status.
fn check_program(program: &str, env: Option<&BTreeMap<String, String>>, ours: &str) -> Result<(), Exception> {
    let path = env.map_or(ours, |env| env.get("PATH").map_or("/bin:/usr/bin", String::as_str));
    let is_there = if program.contains('/') {
        Path::new(program).exists()
    } else {
        path.split(':').any(|dir| Path::new(dir).join(program).is_file())
    };
    if is_there {
        return Ok(());
    }
    let missing = std::io::Error::from_raw_os_error(2);
    Err(Exception::of_file(&missing, program))
}

pub(crate) async fn execute(shared: &Shared, request: Execute) -> Result<Value, Exception> {
    let argv = request.argv();
    let Some(program) = argv.first() else {
        return Err(Exception::builtin("IndexError", "list index out of range"));
    };
    let session_env = shared.settings.session.env.as_ref();
    let path = session_env.and_then(|env| env.get("PATH")).map_or("/bin:/usr/bin", String::as_str);
    check_program(program, request.env.as_ref(), path)?;
    if let Some(cwd) = &request.cwd
        && !Path::new(cwd).is_dir()
    {
        return Err(Exception::of_file(&std::io::Error::from_raw_os_error(2), cwd));
    }
    let mut params = json!({
        "session_id": shared.beside().await?,
        "command": request.line(&argv),
        "background": true,
        "timeout_s": request.timeout.unwrap_or(0.0),
        "encoding": "base64",
        "max_output_bytes": 1,
    });
    if let Some(cwd) = &request.cwd {
        params["working_dir"] = json!(cwd);
    }
    let ran = shared.call::<methods::ExecRun>(params).await.map_err(Exception::of_daemon)?;
    if ran["timed_out"] == json!(true) {
        let seconds = request.timeout.unwrap_or_default();
        let message = format!("Timeout ({seconds}s) exceeded while running command");
        return Err(Exception::swerex("CommandTimeoutError", message));
    }
    let exec_id = ran["exec_id"].as_str().unwrap_or_default();
    let stdout = backslashed(&crate::command::output(shared, exec_id, "stdout", 0).await?);
    let stderr = backslashed(&crate::command::output(shared, exec_id, "stderr", 0).await?);
    let exit_code = ran["exit_code"].as_i64().unwrap_or(-1);
    if request.check && exit_code != 0 {
        let said = format!(
            "Command {} failed with exit code {exit_code}. Stdout:\n{stdout:?}\nStderr:\n{stderr:?}",
            request.said()
        );
        let message =
            if request.error_msg.is_empty() { said } else { format!("{}: {said}", request.error_msg) };
        return Err(Exception::swerex("NonZeroExitCodeError", message));
    }
    Ok(json!({"stdout": stdout, "stderr": stderr, "exit_code": exit_code}))
}
