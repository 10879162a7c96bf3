//! Keeps the daemon's secrets from the commands that it runs.
//!
//! Commands run as the same user, so `/proc` would show them the daemon's environment, arguments and
//! memory: whoever may only run commands could read the token of somebody who may do more.

use std::ops::Range;

use trl_sys::exposure;

/// First of all: from here on, only root can look into this process.
pub(crate) fn forbid_inspection() {
    if let Err(error) = exposure::forbid_inspection() {
        tracing::warn!(%error, "other processes of this user can look into this one");
    }
}

/// Overwrites settings in the environment, and credentials in URLs among the arguments. All settings must
/// have been read, and no thread may have been started.
pub(crate) fn overwrite() {
    // SAFETY: this process still has one thread, and the settings are copies.
    if let Err(error) = unsafe { exposure::overwrite(in_argument, in_variable) } {
        tracing::warn!(%error, "settings stay readable in the daemon's environment");
    }
}

/// The same for a program that was given a token by this flag: arguments can be read by every user.
pub(crate) fn overwrite_flag(flag: &'static str) {
    let mut is_next = false;
    let in_argument = move |argument: &[u8]| in_flag(flag, &mut is_next, argument);
    // SAFETY: this process still has one thread, and the arguments were parsed from copies.
    if let Err(error) = unsafe { exposure::overwrite(in_argument, |_| None) } {
        tracing::warn!(%error, "the token stays readable in this process's arguments");
    }
}

/// `--flag VALUE` in two arguments, or `--flag=VALUE` in one.
fn in_flag(flag: &str, is_next: &mut bool, argument: &[u8]) -> Option<Range<usize>> {
    if std::mem::take(is_next) {
        return Some(0..argument.len());
    }
    let rest = argument.strip_prefix(flag.as_bytes())?;
    *is_next = rest.is_empty();
    rest.starts_with(b"=").then_some(flag.len() + 1..argument.len())
}

/// The value of every setting. Other variables are the sessions' too, and stay.
fn in_variable(variable: &[u8]) -> Option<Range<usize>> {
    let at = variable.iter().position(|byte| *byte == b'=')?;
    variable.starts_with(b"TRL_").then_some(at + 1..variable.len())
}

/// `user:password` of a broker's URL, or all between the first and the last of several.
fn in_argument(argument: &[u8]) -> Option<Range<usize>> {
    let begin = argument.windows(3).position(|window| window == b"://")? + 3;
    let end = argument.iter().rposition(|byte| *byte == b'@')?;
    (begin < end).then_some(begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_flag_is_found_in_both_forms() {
        for (arguments, expected) in [
            (&["trl", "swerex", "--auth-token", "secret", "--port", "0"][..], &[3][..]),
            (&["trl", "swerex", "--auth-token=secret", "--auth-tokens", "x"], &[2]),
            (&["trl", "--auth-token", "--auth-token", "x"], &[2]),
            (&["trl", "swerex"], &[]),
        ] {
            let mut is_next = false;
            let found: Vec<usize> = (0..arguments.len())
                .filter(|n| in_flag("--auth-token", &mut is_next, arguments[*n].as_bytes()).is_some())
                .collect();
            assert_eq!(found, expected, "{arguments:?}");
        }
        assert_eq!(in_flag("--t", &mut false, b"--t=secret"), Some(4..10));
    }

    #[test]
    fn settings_and_credentials_are_found() {
        for (variable, expected) in [
            ("TRL_AUTH_TOKEN=secret", Some("secret")),
            ("TRL_RELAY=nats://a:b@c", Some("nats://a:b@c")),
            ("TRL_EMPTY=", Some("")),
            ("HTTPS_PROXY=http://user:word@proxy", None),
            ("X=TRL_AUTH_TOKEN=secret", None),
            ("TRL_", None),
            ("", None),
        ] {
            let found = in_variable(variable.as_bytes()).map(|range| &variable[range]);
            assert_eq!(found, expected, "{variable}");
        }
        for (argument, expected) in [
            ("nats://user:word@host:4222", Some("user:word")),
            ("--relay=nats://user:word@host:4222", Some("user:word")),
            ("nats://a:b@one,nats://c:d@two", Some("a:b@one,nats://c:d")),
            ("nats://host:4222", None),
            ("--http", None),
            ("me@host", None),
            ("", None),
        ] {
            let found = in_argument(argument.as_bytes()).map(|range| &argument[range]);
            assert_eq!(found, expected, "{argument}");
        }
    }
}
