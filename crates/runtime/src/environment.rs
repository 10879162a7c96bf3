//! The environment of a session, in layers: what the backend lets it inherit, then defaults
//! under which nothing prompts or pages, then the request's, then the session's own identity.

use std::collections::BTreeMap;

use trl_protocol::ids::{IDENTITY, is_env_name};
use trl_protocol::{Fault, SessionId};

use crate::Config;

/// For all sessions, unless they say otherwise: a pager or a prompt would wait for a
/// person who is not there.
const QUIET: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("AWS_PAGER", ""),
    ("BAT_PAGER", "cat"),
    ("DELTA_PAGER", "cat"),
    ("PSQL_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GCM_INTERACTIVE", "never"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
];

/// `NAME=value` with its NUL: what Linux takes at most (`MAX_ARG_STRLEN`).
const MAX_ENTRY: usize = 128 * 1024;

/// What speaks to the daemon itself and must not be taken for the session's own.
const DAEMONS_OWN: &[&str] =
    &["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "SHLVL", "OLDPWD", "_"];

/// What a host process and its session inherit: everything but settings and secrets of the daemon.
pub(crate) fn inherited(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let kept = |name: &str| !name.starts_with("TRL_") && !DAEMONS_OWN.contains(&name);
    env.iter().filter(|(name, _)| kept(name)).map(|(n, v)| (n.clone(), v.clone())).collect()
}

/// The environment of a session's shell, without its identity. `base` is what the backend lets sessions inherit.
pub(crate) fn of_session(
    base: BTreeMap<String, String>,
    asked: &BTreeMap<String, String>,
    tty: bool,
) -> BTreeMap<String, String> {
    let mut env = base;
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    for (name, value) in QUIET {
        set(name, value);
    }
    set("TERM", if tty { "xterm-256color" } else { "dumb" });
    for (name, value) in asked {
        set(name, value);
    }
    env
}

/// Removes what [`identify`] sets: it is that of another session.
pub(crate) fn forget_identity(env: &mut BTreeMap<String, String>) {
    env.retain(|name, _| !IDENTITY.contains(&name.as_str()));
}

/// Tells those inside which session this is and where its daemon is.
pub(crate) fn identify(
    env: &mut BTreeMap<String, String>,
    config: &Config,
    id: SessionId,
    name: Option<&str>,
) {
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    let [id_name, name_name, socket_name] = IDENTITY;
    set(id_name, &id.to_string());
    if let Some(name) = name {
        set(name_name, name);
    }
    if let Some(socket) = config.socket.as_deref().and_then(|socket| socket.to_str()) {
        set(socket_name, socket);
    }
}

/// Refuses names that no shell can hold and values that no process can. Values are not told.
pub(crate) fn check(env: &BTreeMap<String, String>) -> Result<(), Fault> {
    for (name, value) in env {
        let shown: String = name.chars().take(80).collect();
        let problem = if !is_env_name(name) {
            "is not the name of a variable (letters, digits and _, not beginning with a digit)"
        } else if value.contains('\0') {
            "has a value with a NUL byte, which no process can be given"
        } else if name.len() + value.len() + 2 > MAX_ENTRY {
            "is too long with its value: the system gives a process at most 128 KiB in one variable; put it \
             into a file"
        } else {
            continue;
        };
        return Err(Fault::invalid(format!("param `env`: {shown:?} {problem}"))
            .with_details(serde_json::json!({ "field": format!("env.{shown}") })));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_value_may_be_as_long_as_the_system_takes() {
        let long = |length: usize| map(&[("LONG", "x".repeat(length).as_str())]);
        assert!(check(&long(MAX_ENTRY - "LONG=\0".len())).is_ok());
        let fault = check(&long(MAX_ENTRY - "LONG=\0".len() + 1)).unwrap_err();
        assert_eq!(fault.details.unwrap()["field"], "env.LONG");
    }

    #[test]
    fn later_layers_win_and_the_daemons_own_stay_out() {
        let mut config = Config::new("/r".into(), "/s".into(), "/h".into());
        config.env = map(&[
            ("A", "1"),
            ("PAGER", "less"),
            ("TRL_AUTH_TOKEN", "secret"),
            ("TRL_SESSION_NAME", "outer"),
            ("NOTIFY_SOCKET", "/run/systemd/notify"),
            ("LISTEN_FDS", "1"),
            ("SHLVL", "3"),
        ]);
        config.socket = Some("/r/trl.sock".into());
        let asked = map(&[("GIT_PAGER", "less"), ("B", "2")]);
        let mut env = of_session(inherited(&config.env), &asked, false);
        identify(&mut env, &config, SessionId(7), None);
        for (name, expected) in [
            ("A", Some("1")),
            ("B", Some("2")),
            ("PAGER", Some("cat")),
            ("GIT_PAGER", Some("less")),
            ("TERM", Some("dumb")),
            ("TRL_AUTH_TOKEN", None),
            ("NOTIFY_SOCKET", None),
            ("LISTEN_FDS", None),
            ("SHLVL", None),
            ("TRL_SESSION_NAME", None),
            ("TRL_SESSION_ID", Some("s-00000007")),
            ("TRL_SOCKET_PATH", Some("/r/trl.sock")),
        ] {
            assert_eq!(env.get(name).map(String::as_str), expected, "{name}");
        }
        let base = inherited(&config.env);
        let mut named = of_session(base, &map(&[("TERM", "vt100")]), true);
        identify(&mut named, &config, SessionId(7), Some("n"));
        assert_eq!((named["TERM"].as_str(), named["TRL_SESSION_NAME"].as_str()), ("vt100", "n"));
    }

    #[test]
    fn names_and_values_that_cannot_be_are_named_without_the_value() {
        for (name, value) in [("INVALID-NAME", "v"), ("1X", "v"), ("A B", "v"), ("", "v"), ("OK", "sec\0ret")]
        {
            let fault = check(&map(&[(name, value)])).unwrap_err();
            assert!(fault.message.contains(&format!("{name:?}")), "{}", fault.message);
            assert!(!fault.message.contains("ret"), "{}", fault.message);
        }
        assert_eq!(check(&map(&[("_A1", "")])), Ok(()));
    }
}
