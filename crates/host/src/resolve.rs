//! What a daemon elsewhere cannot know: which shells and directories there are here, and
//! what the environment is.

use std::collections::BTreeMap;
use std::path::Path;

use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::{Dialect, SessionSpec};
use trl_sys::shells::{self, Kind, Search};

/// What must not be taken for the session's own.
const NOT_INHERITED: [&str; 4] = ["SHLVL", "OLDPWD", "PWD", "_"];

/// Completes a session that leaves it to its host to find these things out.
pub(crate) fn complete(spec: &mut SessionSpec) -> Result<(), Fault> {
    let Some(wanted) = spec.resolve.take() else { return Ok(()) };
    let mut env = inherited();
    let search = Search {
        path: env.get("PATH").map_or("", String::as_str),
        preferred: env.get("SHELL").map(String::as_str),
    };
    let shell = shells::resolve(wanted.shell.as_deref(), search).map_err(|error| {
        Fault::invalid(format!("param `shell`: {error}"))
            .with_details(serde_json::json!({ "field": "shell" }))
    })?;
    spec.working_dir = working_dir(wanted.working_dir, &env)?;
    spec.dialect = match shell.kind {
        Kind::Bash => Dialect::Bash,
        Kind::Zsh => Dialect::Zsh,
        Kind::Sh => Dialect::Sh,
    };
    spec.shell = shell.name;
    spec.shell_path = shell.path.to_string_lossy().into_owned();
    env.append(&mut spec.env);
    spec.env = env;
    Ok(())
}

fn inherited() -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !name.starts_with("TRL_") && !NOT_INHERITED.contains(&name.as_str()))
        .collect();
    let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    env.entry("PATH".to_owned()).or_insert_with(|| usual.to_owned());
    env
}

fn working_dir(wanted: Option<String>, env: &BTreeMap<String, String>) -> Result<String, Fault> {
    let Some(wanted) = wanted else {
        let here = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
        return Ok(here.or_else(|| env.get("HOME").cloned()).unwrap_or_else(|| "/".to_owned()));
    };
    let problem = match Path::new(&wanted).metadata() {
        _ if !wanted.starts_with('/') => "is not an absolute path".to_owned(),
        Ok(meta) if meta.is_dir() => return Ok(wanted),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Fault::new(Code::InvalidParams, format!("param `working_dir`: {wanted:?}: {problem}"))
        .with_details(serde_json::json!({ "field": "working_dir" })))
}
