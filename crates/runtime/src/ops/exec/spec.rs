//! From the params of `exec.run`, `exec.stream` and `exec.start` to what a host runs.

use trl_protocol::exec::RunParams;
use trl_protocol::wire::{Mode, RunSpec, Stdin};
use trl_protocol::{Code, Fault, limits};

use crate::config::Config;
use crate::session::Session;
use crate::{environment, seconds};

pub(super) fn of(
    config: &Config,
    session: &Session,
    params: RunParams,
    mode: Mode,
) -> Result<RunSpec, Fault> {
    check_command(&params.command)?;
    let env = params.env.unwrap_or_default();
    environment::check(&env)?;
    if params.working_dir.as_ref().is_some_and(|dir| dir.contains('\0')) {
        return Err(Fault::invalid("param `working_dir` has a NUL byte")
            .with_details(serde_json::json!({ "field": "working_dir" })));
    }
    check_run_id(params.run_id.as_deref())?;
    let asked = params.max_output_bytes.unwrap_or(config.max_output_bytes);
    Ok(RunSpec {
        timeout_ms: params.timeout_s.map(|s| seconds::as_millis("timeout_s", s)).transpose()?,
        stdin: stdin(params.stdin, params.stdin_open, mode)?,
        env,
        working_dir: params.working_dir,
        max_output: asked.min(limits::MAX_OUTPUT_BYTES),
        mode,
        wait_ms: params.wait_s.map(|s| seconds::as_millis("wait_s", s)).transpose()?.unwrap_or(0),
        background: params.background.unwrap_or(mode == Mode::Detached),
        tty: params.tty.unwrap_or(session.tty),
        merge_stderr: params.merge_stderr.unwrap_or(false),
        command: params.command,
        run_id: params.run_id,
    })
}

fn check_command(command: &str) -> Result<(), Fault> {
    if command.len() > limits::MAX_COMMAND_BYTES {
        return Err(Fault::new(
            Code::PayloadTooLarge,
            format!(
                "param `command` has {} bytes, more than the limit of {}; put the text into a file and run that",
                command.len(),
                limits::MAX_COMMAND_BYTES
            ),
        )
        .with_details(serde_json::json!({ "field": "command" })));
    }
    match command.find('\0') {
        None => Ok(()),
        Some(at) => Err(Fault::invalid(format!(
            "param `command` has a NUL byte (at byte {at}), which no shell can read"
        ))
        .with_details(serde_json::json!({ "field": "command" }))),
    }
}

fn check_run_id(id: Option<&str>) -> Result<(), Fault> {
    let most = limits::MAX_RUN_ID_BYTES;
    match id {
        Some(id) if id.is_empty() || id.len() > most => {
            Err(Fault::invalid(format!("param `run_id` has {} bytes; it takes 1 to {most}", id.len()))
                .with_details(serde_json::json!({ "field": "run_id" })))
        }
        _ => Ok(()),
    }
}

fn stdin(given: Option<String>, open: Option<bool>, mode: Mode) -> Result<Stdin, Fault> {
    if given.as_ref().is_some_and(|text| text.len() > limits::MAX_STDIN_BYTES) {
        return Err(too_much_stdin("stdin"));
    }
    let by_default = match (mode, given.as_deref()) {
        (Mode::Collect, _) | (Mode::Stream, None) => false,
        (Mode::Detached, None) => true,
        (Mode::Stream | Mode::Detached, Some(text)) => text.is_empty(),
    };
    let bytes = given.unwrap_or_default().into_bytes();
    Ok(match open.unwrap_or(by_default) {
        true => Stdin::Open(bytes),
        false if bytes.is_empty() => Stdin::Empty,
        false => Stdin::Whole(bytes),
    })
}

pub(super) fn too_much_stdin(field: &str) -> Fault {
    Fault::new(
        Code::PayloadTooLarge,
        format!(
            "param `{field}` has more than {} bytes; send it in parts with exec.write",
            limits::MAX_STDIN_BYTES
        ),
    )
    .with_details(serde_json::json!({ "field": field }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_stdin_stays_open() {
        let open = |text: &str| Stdin::Open(text.as_bytes().to_vec());
        let whole = |text: &str| Stdin::Whole(text.as_bytes().to_vec());
        let cases = [
            (Mode::Collect, None, None, Stdin::Empty),
            (Mode::Collect, Some(""), None, Stdin::Empty),
            (Mode::Collect, Some("a"), None, whole("a")),
            (Mode::Collect, Some("a"), Some(true), open("a")),
            (Mode::Stream, None, None, Stdin::Empty),
            (Mode::Stream, Some(""), None, open("")),
            (Mode::Stream, Some("a"), None, whole("a")),
            (Mode::Detached, None, None, open("")),
            (Mode::Detached, None, Some(false), Stdin::Empty),
            (Mode::Detached, Some(""), None, open("")),
            (Mode::Detached, Some("a"), None, whole("a")),
            (Mode::Detached, Some("a"), Some(true), open("a")),
        ];
        for (mode, given, asked, expected) in cases {
            assert_eq!(
                stdin(given.map(str::to_owned), asked, mode),
                Ok(expected),
                "{mode:?} {given:?} {asked:?}"
            );
        }
    }

    #[test]
    fn commands_that_no_shell_takes() {
        assert_eq!(check_command(""), Ok(()));
        assert_eq!(check_command("a\0").unwrap_err().code, Code::InvalidParams);
        let long = "x".repeat(limits::MAX_COMMAND_BYTES + 1);
        assert_eq!(check_command(&long).unwrap_err().code, Code::PayloadTooLarge);
        assert_eq!(check_command(&long[1..]), Ok(()));
    }
}
