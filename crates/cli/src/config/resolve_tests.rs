//! Tables over where a setting comes from; each home is a directory of its own.

use std::path::Path;

use super::super::{Ambient, EnvFile, Flags, Layers};
use super::*;

/// Variables and their values.
type Env<'a> = &'a [(&'a str, &'a str)];

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn ambient(&self, env: Env<'_>) -> Ambient {
        let mut all: std::collections::BTreeMap<String, String> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.entry("HOME".into()).or_insert_with(|| self.0.path().display().to_string());
        Ambient { env: all, cwd: self.0.path().to_owned(), uid: 1234 }
    }

    fn settings(&self, flags: &[(Key, &'static str, &str)], env: Env<'_>) -> Result<Settings, String> {
        let flags = Flags {
            settings: flags.iter().map(|(key, flag, text)| (*key, *flag, (*text).to_owned())).collect(),
            env_file: EnvFile::InWorkingDir,
            ..Flags::default()
        };
        let ambient = self.ambient(env);
        let layers = Layers::gather(&flags, &ambient).map_err(|error| error.to_string())?;
        resolve(&layers, &ambient).map_err(|error| error.to_string())
    }
}

#[test]
fn certificates_for_a_broker_count_before_there_is_a_relay() {
    let settings = Home::new().settings(&[], &[("TRL_RELAY_CA", "/ca.pem")]).unwrap();
    assert!(settings.relay.is_none());
    assert_eq!(settings.relay_tls.ca.as_deref(), Some(std::path::Path::new("/ca.pem")));
}

#[test]
fn each_layer_wins_over_the_ones_below() {
    let home = Home::new();
    let sessions = |flags: &[_], env: &[_]| home.settings(flags, env).unwrap().max_sessions;
    assert_eq!(sessions(&[], &[]), 64);
    home.write(".config/trl/config.toml", "max_sessions = 5\n");
    assert_eq!(sessions(&[], &[]), 5);
    home.write(".env", "OTHER=1\nTRL_MAX_SESSIONS=6\n");
    assert_eq!(sessions(&[], &[]), 6);
    assert_eq!(sessions(&[], &[("TRL_MAX_SESSIONS", "7")]), 7);
    assert_eq!(sessions(&[], &[("TRL_MAX_SESSIONS", "")]), 6, "empty is unset");
    assert_eq!(
        sessions(&[(Key::MaxSessions, "--max-sessions", "8")], &[("TRL_MAX_SESSIONS", "7")]),
        8,
        "a flag wins over all"
    );
}

#[test]
fn places_follow_home_then_xdg_then_defaults() {
    let home = Home::new();
    let cases: &[(Env<'_>, &str, &str, &str)] = &[
        (&[("TRL_HOME", "/h")], "/h/run", "/h/state", "/h/config/config.toml"),
        (
            &[("XDG_RUNTIME_DIR", "/r"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")],
            "/r/trl",
            "/s/trl",
            "/c/trl/config.toml",
        ),
        (&[("HOME", "/u")], "/tmp/trl-1234", "/u/.local/state/trl", "/u/.config/trl/config.toml"),
        (
            &[("HOME", "/u"), ("XDG_RUNTIME_DIR", "not/absolute")],
            "/tmp/trl-1234",
            "/u/.local/state/trl",
            "/u/.config/trl/config.toml",
        ),
        (&[("TRL_HOME", "/h"), ("XDG_RUNTIME_DIR", "/r")], "/h/run", "/h/state", "/h/config/config.toml"),
    ];
    for (env, runtime, state, config) in cases {
        let settings = home.settings(&[], env).unwrap();
        assert_eq!(settings.places.runtime, Path::new(runtime), "{env:?}");
        assert_eq!(settings.places.state, Path::new(state), "{env:?}");
        assert_eq!(settings.places.config_file, Path::new(config), "{env:?}");
        assert_eq!(settings.socket, Path::new(runtime).join("trl.sock"), "{env:?}");
    }
}

#[test]
fn relative_paths_are_below_the_working_directory() {
    let home = Home::new();
    let settings = home.settings(&[(Key::SocketPath, "--socket", "x.sock")], &[("TRL_HOME", "h")]).unwrap();
    assert_eq!(settings.socket, home.0.path().join("x.sock"));
    assert_eq!(settings.places.state, home.0.path().join("h/state"));
    assert!(settings.socket_by_flag);
    assert!(!home.settings(&[], &[("TRL_SOCKET_PATH", "/x")]).unwrap().socket_by_flag);
}

#[test]
fn values_are_read_with_their_units() {
    let home = Home::new();
    home.write(
        ".config/trl/config.toml",
        "default_timeout_s = 2.5\nmax_output_bytes = \"2M\"\nkeep_sessions = true\nlog_format = \"json\"\nmax_idle_sec = 0\n",
    );
    let settings = home.settings(&[], &[("TRL_SESSION_TTL_SEC", "2h"), ("TRL_JOURNAL_BYTES", "1G")]).unwrap();
    assert_eq!(settings.default_timeout_s, 2.5);
    assert_eq!(settings.max_output_bytes, 2 << 20);
    assert_eq!(settings.journal_bytes, 1 << 30);
    assert_eq!((settings.max_idle_s, settings.session_ttl_s), (0.0, 7200.0));
    assert!(settings.keep_sessions);
    assert_eq!(settings.log_format, LogFormat::Json);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let cases: &[(Env<'_>, &str, &[&str])] = &[
        (&[("TRL_MAX_SESSIONS", "many")], "", &["TRL_MAX_SESSIONS", "\"many\"", "whole number"]),
        (&[("TRL_MAX_SESSIONS", "0")], "", &["TRL_MAX_SESSIONS", "\"0\"", "at least 1"]),
        (&[("TRL_DEFAULT_TIMEOUT_S", "-1")], "", &["TRL_DEFAULT_TIMEOUT_S", "\"-1\"", "seconds"]),
        (&[("TRL_KEEP_SESSIONS", "maybe")], "", &["TRL_KEEP_SESSIONS", "yes, no"]),
        (&[], "max_session = 3\n", &["config.toml", "`max_session`", "did you mean `max_sessions`"]),
        (&[], "colour = 3\n", &["config.toml", "`colour`", "known: socket_path"]),
        (&[], "max_sessions = \"x\"\n", &["`max_sessions`", "config.toml", "\"x\""]),
        (&[], "max_sessions = [1]\n", &["`max_sessions`", "a number"]),
        (&[], "max_sessions = \n", &["config.toml"]),
    ];
    for (env, file, expected) in cases {
        let home = Home::new();
        home.write(".config/trl/config.toml", file);
        let error = home.settings(&[], env).unwrap_err();
        for part in *expected {
            assert!(error.contains(part), "{env:?} {file:?}: {error}");
        }
    }
}

#[test]
fn a_dot_env_of_others_does_no_harm_and_ours_is_checked() {
    let home = Home::new();
    home.write(".env", "this is = not ours\nTRL_LOG=debug\n");
    assert_eq!(home.settings(&[], &[]).unwrap().log_filter, "debug");
    home.write(".env", "TRL_MAX_SESSIONS=x\n");
    let error = home.settings(&[], &[]).unwrap_err();
    assert!(error.contains("TRL_MAX_SESSIONS in ") && error.contains(".env"), "{error}");
}

#[test]
fn a_dot_env_decides_nothing_outside_unless_it_is_named() {
    for key in Key::ALL {
        let home = Home::new();
        home.write(".env", &format!("{}=7\nTRL_MAX_CONNECTIONS=7\n", key.env()));
        let gathered = |env_file: EnvFile| {
            let flags = Flags { env_file, ..Flags::default() };
            Layers::gather(&flags, &home.ambient(&[])).unwrap()
        };
        let unread = gathered(EnvFile::Unread);
        assert!(unread.get(*key).is_none() && unread.ignored.is_none(), "{key:?} was read by a client");
        let named = gathered(EnvFile::Named(".env".into()));
        assert_eq!(named.get(*key).map(|said| said.text.as_str()), Some("7"), "{key:?}");
        assert_eq!(named.ignored, None);
        let found = gathered(EnvFile::InWorkingDir);
        assert!(found.get(Key::MaxConnections).is_some(), "{key:?} hides the other");
        let ignored = found.ignored.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(found.get(*key).is_none(), ignored.contains(key.env()), "{key:?}: {ignored}");
    }
}

/// A setting whose name says that it is an address, a secret or a place is one that a project must not decide.
#[test]
fn what_names_a_place_a_secret_or_an_address_reaches_outside() {
    use super::super::keys::Reach;
    let telling = [
        "PATH",
        "HOME",
        "HTTP",
        "TOKEN",
        "FILE",
        "KEY",
        "CERT",
        "CA",
        "RELAY",
        "CREDENTIALS",
        "DIR",
        "ISOLATION",
        "ENGINE",
        "PROGRAM",
        "ANNOUNCE",
    ];
    for key in Key::ALL {
        let parts = key.env().split('_').skip(1);
        let outside = parts
            .into_iter()
            .any(|part| telling.contains(&part) || telling.contains(&part.trim_end_matches('S')));
        let expected = if outside { Reach::Outside } else { Reach::Inside };
        assert_eq!(key.reach(), expected, "{key:?}: is it safe in the hands of whoever wrote the project?");
    }
}

#[test]
fn an_env_file_asked_for_must_be_there() {
    let home = Home::new();
    let flags = Flags { env_file: EnvFile::Named("none.env".into()), ..Flags::default() };
    let error = Layers::gather(&flags, &home.ambient(&[])).unwrap_err().to_string();
    assert!(error.contains("none.env"), "{error}");
}

#[test]
fn a_config_file_asked_for_must_be_there() {
    let home = Home::new();
    let flags = Flags { config_file: Some("none.toml".into()), ..Flags::default() };
    assert!(Layers::gather(&flags, &home.ambient(&[])).is_err());
    assert!(Layers::gather(&Flags::default(), &home.ambient(&[])).is_ok());
}

#[test]
fn without_a_home_there_is_a_remedy() {
    let home = Home::new();
    let ambient = Ambient { env: Default::default(), ..home.ambient(&[]) };
    let error = Layers::gather(&Flags::default(), &ambient).unwrap_err();
    assert!(error.help().unwrap().contains("TRL_HOME"));
}

#[test]
fn every_setting_is_in_the_manual() {
    let manual = include_str!("../../../../docs/configuration.md");
    for key in Key::ALL {
        assert!(manual.contains(&format!("`{}`", key.env())), "docs/configuration.md lacks {}", key.env());
        if let Some(in_file) = key.in_file() {
            assert!(manual.contains(&format!("`{in_file}`")), "docs/configuration.md lacks {in_file}");
        }
        assert!(manual.contains(key.about()), "docs/configuration.md lacks: {}", key.about());
    }
}
