//! From the params of `exec.run`, `exec.stream` and `exec.start` to what a host runs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::exec::{Encoding, RunParams};
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
    let field = if params.argv.is_some() { "argv" } else { "command" };
    let command = command(params.command, params.argv)?;
    check_command(field, &command)?;
    let env = params.env.unwrap_or_default();
    environment::check(&env)?;
    if params.working_dir.as_ref().is_some_and(|dir| dir.contains('\0')) {
        return Err(Fault::invalid("param `working_dir` has a NUL byte")
            .with_details(serde_json::json!({ "field": "working_dir" })));
    }
    check_run_id(params.run_id.as_deref())?;
    let asked = params.max_output_bytes.unwrap_or(config.max_output_bytes);
    let tty = params.tty.unwrap_or(session.tty);
    let stdin = GivenStdin { data: params.stdin, encoding: params.stdin_encoding, open: params.stdin_open };
    Ok(RunSpec {
        timeout_ms: params.timeout_s.map(|s| seconds::as_millis("timeout_s", s)).transpose()?,
        stdin: stdin.read(mode, tty)?,
        env,
        working_dir: params.working_dir,
        max_output: asked.min(limits::MAX_OUTPUT_BYTES),
        mode,
        wait_ms: params.wait_s.map(|s| seconds::as_millis("wait_s", s)).transpose()?.unwrap_or(0),
        background: params.background.unwrap_or(mode == Mode::Detached),
        tty,
        merge_stderr: params.merge_stderr.unwrap_or(false),
        replace_env: params.replace_env.unwrap_or(false),
        command,
        run_id: params.run_id,
    })
}

/// Shell text, given as such or as words that the shell must not interpret.
pub(super) fn command(text: Option<String>, words: Option<Vec<String>>) -> Result<String, Fault> {
    let bad = |field: &str, problem: &str| {
        Err(Fault::invalid(problem.to_owned()).with_details(serde_json::json!({ "field": field })))
    };
    match (text, words) {
        (Some(text), None) => Ok(text),
        (None, Some(words)) if words.first().is_some_and(|program| !program.is_empty()) => {
            if let Some(at) = words.iter().position(|word| word.contains('\0')) {
                let problem =
                    format!("param `argv` has a NUL byte (in argv[{at}]), which no program can be given");
                return bad("argv", &problem);
            }
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            Ok(quoted.join(" "))
        }
        (None, Some(_)) => bad("argv", "param `argv` needs the name of a program as its first word"),
        (None, None) => bad("command", "a command needs the param `command`, or `argv`"),
        (Some(_), Some(_)) => bad("argv", "params `command` and `argv` cannot be given together"),
    }
}

/// `field` is the param that the text is made of.
fn check_command(field: &str, command: &str) -> Result<(), Fault> {
    if command.len() > limits::MAX_COMMAND_BYTES {
        return Err(Fault::new(
            Code::PayloadTooLarge,
            format!(
                "param `{field}` has {} bytes, more than the limit of {}; put the text into a file and run that",
                command.len(),
                limits::MAX_COMMAND_BYTES
            ),
        )
        .with_details(serde_json::json!({ "field": field })));
    }
    match command.find('\0') {
        None => Ok(()),
        Some(at) => Err(Fault::invalid(format!(
            "param `{field}` has a NUL byte (at byte {at}), which no shell can read"
        ))
        .with_details(serde_json::json!({ "field": field }))),
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

/// The params about stdin, as they were given.
struct GivenStdin {
    data: Option<String>,
    encoding: Option<Encoding>,
    open: Option<bool>,
}

impl GivenStdin {
    fn read(self, mode: Mode, tty: bool) -> Result<Stdin, Fault> {
        let by_default = mode == Mode::Detached && self.data.as_deref().is_none_or(str::is_empty);
        // On a terminal without any, somebody may type; an empty one is end of file there too.
        let may_be_typed = tty && self.data.is_none();
        let bytes = decoded("stdin", self.data.unwrap_or_default(), self.encoding.unwrap_or_default())?;
        Ok(match self.open.unwrap_or(by_default) {
            true => Stdin::Open(bytes),
            false if bytes.is_empty() && (!tty || may_be_typed) => Stdin::Empty,
            false => Stdin::Whole(bytes),
        })
    }
}

/// The bytes of a param that is text or base64.
pub(crate) fn decoded(field: &str, data: String, encoding: Encoding) -> Result<Vec<u8>, Fault> {
    let data = match encoding {
        Encoding::Utf8 => data.into_bytes(),
        Encoding::Base64 => STANDARD.decode(&data).map_err(|error| {
            Fault::invalid(format!("param `{field}` is not base64: {error}"))
                .with_details(serde_json::json!({ "field": field }))
        })?,
    };
    if data.len() > limits::MAX_STDIN_BYTES { Err(too_much_stdin(field)) } else { Ok(data) }
}

fn too_much_stdin(field: &str) -> Fault {
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
            (Mode::Stream, Some(""), None, Stdin::Empty),
            (Mode::Stream, Some(""), Some(true), open("")),
            (Mode::Stream, Some("a"), None, whole("a")),
            (Mode::Detached, None, None, open("")),
            (Mode::Detached, None, Some(false), Stdin::Empty),
            (Mode::Detached, Some(""), None, open("")),
            (Mode::Detached, Some(""), Some(false), Stdin::Empty),
            (Mode::Detached, Some("a"), None, whole("a")),
            (Mode::Detached, Some("a"), Some(true), open("a")),
        ];
        for (mode, given, open, expected) in cases {
            let read =
                |tty| GivenStdin { data: given.map(str::to_owned), encoding: None, open }.read(mode, tty);
            assert_eq!(read(false), Ok(expected.clone()), "{mode:?} {given:?} {open:?}");
            let on_terminal = match (given, expected) {
                (Some(""), Stdin::Empty) => whole(""),
                (_, expected) => expected,
            };
            assert_eq!(read(true), Ok(on_terminal), "{mode:?} {given:?} {open:?} on a terminal");
        }
    }

    #[test]
    fn stdin_can_be_bytes() {
        let read = |text: &str| {
            let (data, encoding) = (Some(text.to_owned()), Some(Encoding::Base64));
            GivenStdin { data, encoding, open: None }.read(Mode::Collect, false)
        };
        assert_eq!(read("AP8="), Ok(Stdin::Whole(vec![0, 255])));
        assert_eq!(read("?").unwrap_err().code, Code::InvalidParams);
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        let words = |words: &[&str]| command(None, Some(words.iter().map(|it| (*it).to_owned()).collect()));
        assert_eq!(
            words(&["echo", "a b", "$x", "it's", ""]),
            Ok(r"'echo' 'a b' '$x' 'it'\''s' ''".to_owned())
        );
        for (text, argv) in [(None, None), (None, Some(vec![])), (None, Some(vec![String::new()]))] {
            assert_eq!(command(text, argv).unwrap_err().code, Code::InvalidParams);
        }
        assert!(command(Some("a".into()), Some(vec!["b".into()])).is_err());
    }

    #[test]
    fn commands_that_no_shell_takes() {
        let check_command = |text: &str| check_command("command", text);
        assert_eq!(check_command(""), Ok(()));
        assert_eq!(check_command("a\0").unwrap_err().code, Code::InvalidParams);
        let fault = command(None, Some(vec!["echo".into(), "a\0b".into()])).unwrap_err();
        assert_eq!(fault.details, Some(serde_json::json!({ "field": "argv" })));
        assert!(fault.message.contains("`argv`") && fault.message.contains("argv[1]"), "{}", fault.message);
        let long = "x".repeat(limits::MAX_COMMAND_BYTES + 1);
        assert_eq!(check_command(&long).unwrap_err().code, Code::PayloadTooLarge);
        assert_eq!(check_command(&long[1..]), Ok(()));
    }
}
