//! Are the settings sound, and are there any that nobody reads?

use std::collections::BTreeSet;

use trl_protocol::request::nearest;

use super::Check;
use crate::config::{ConfigError, Key, NOT_SETTINGS, Settings};

pub(super) fn broken(error: &ConfigError) -> Check {
    let remedy = error.help().unwrap_or("Correct or remove it; docs/configuration.md lists every setting.");
    Check::fail("settings", error.to_string(), "Neither a daemon nor a client can start.", remedy)
}

pub(super) fn sound(settings: &Settings) -> Check {
    let file = &settings.places.config_file;
    let found = if file.exists() { file.display().to_string() } else { format!("no {}", file.display()) };
    if settings.http.as_ref().is_some_and(|http| http.token.is_none() && http.tokens_file.is_none()) {
        return Check::warn(
            "settings",
            "HTTP is asked for, but there is no token",
            "`trl serve` refuses to start without one.",
            "Set TRL_AUTH_TOKEN or TRL_TOKENS_FILE.",
        );
    }
    Check::ok("settings", found)
}

/// Variables that look like ours and are not, and settings in a `.env` file that no client reads.
pub(super) fn variables() -> Vec<Check> {
    let from_env = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let from_file = dotenvy::from_path_iter(".env").into_iter().flatten().flatten().map(|(name, _)| name);
    let from_file: BTreeSet<String> = from_file.filter(|name| name.starts_with("TRL_")).collect();
    let names: BTreeSet<String> = from_env.chain(from_file.iter().cloned()).collect();
    names.iter().filter_map(|name| unknown(name)).chain(dot_env(&from_file)).collect()
}

fn dot_env(names: &BTreeSet<String>) -> Option<Check> {
    if names.is_empty() {
        return None;
    }
    let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Some(Check::warn(
        "variables",
        format!(".env sets {names}"),
        "Clients, and a daemon that they start, do not read .env.",
        "Export them, put them into the config file, or start the daemon with `trl serve --env-file .env`.",
    ))
}

fn unknown(name: &str) -> Option<Check> {
    let known = || Key::ALL.iter().map(|key| key.env()).chain(NOT_SETTINGS.iter().copied());
    if !name.starts_with("TRL_") || known().any(|ours| ours == name) {
        return None;
    }
    let remedy = match nearest(name, known()) {
        Some(near) => format!("Did you mean {near}?"),
        None => "docs/configuration.md lists every setting.".to_owned(),
    };
    Some(Check::warn("variables", format!("{name} is set"), "Nothing reads it.", remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_misspelt_names_are_told() {
        for fine in ["PATH", "TRL_HOME", "TRL_SESSION_ID", "TRL_MAX_SESSIONS"] {
            assert!(unknown(fine).is_none(), "{fine}");
        }
        let check = unknown("TRL_MAX_SESSION").unwrap();
        assert_eq!(check.remedy.unwrap(), "Did you mean TRL_MAX_SESSIONS?");
        assert!(unknown("TRL_COFFEE").unwrap().remedy.unwrap().contains("configuration.md"));
    }
}
