//! What is answered about a command that ran.

use serde_json::{Value, json};

use crate::exception::Exception;
use crate::requests::{Bash, Check};

/// What the other side calls the prompt: it stands for the end of a command.
pub(crate) const PROMPT: &str = "SHELLPS1PREFIX";

pub(crate) fn ignoring(action: &Bash, exit_code: Option<i64>) -> Option<i64> {
    exit_code.filter(|_| action.check != Check::Ignore)
}

pub(crate) fn judged(
    action: &Bash,
    output: &str,
    exit_code: Option<i64>,
    seen: &str,
) -> Result<Value, Exception> {
    match (action.check, exit_code) {
        (Check::Ignore, _) => Ok(observation(output, None, seen)),
        (Check::Silent, _) | (Check::Raise, Some(0)) => Ok(observation(output, exit_code, seen)),
        (Check::Raise, None) => {
            Err(Exception::swerex("NoExitCodeError", "the exit status of the command is not known"))
        }
        (Check::Raise, Some(code)) => {
            let said = format!(
                "Command {:?} failed with exit code {code}. Here is the output:\n{output:?}",
                action.command
            );
            let message =
                if action.error_msg.is_empty() { said } else { format!("{}: {said}", action.error_msg) };
            Err(Exception::swerex("NonZeroExitCodeError", message))
        }
    }
}

pub(crate) fn observation(output: &str, exit_code: Option<i64>, seen: &str) -> Value {
    json!({
        "output": output, "exit_code": exit_code, "failure_reason": "", "expect_string": seen,
        "session_type": "bash",
    })
}
