//! What was said, by whom, as text: flags over environment over `.env` over config file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use trl_runtime::NamedRuntime;

use super::dot_env::{self, EnvFile, Ignored};
use super::keys::Key;
use super::places::{self, Places};
use super::{ConfigError, file};

/// What the process was given, so that tests can give something else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ambient {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    pub(crate) uid: u32,
}

impl Ambient {
    pub(crate) fn of_this_process() -> Ambient {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        Ambient {
            env: std::env::vars_os().filter_map(text).collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            uid: rustix::process::getuid().as_raw(),
        }
    }

    /// An empty variable is as good as none.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Settings given as flags, with the places, which have flags only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    pub(crate) settings: Vec<(Key, &'static str, String)>,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) env_file: EnvFile,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Env(&'static str),
    DotEnv(PathBuf, &'static str),
    File(PathBuf, &'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => f.write_str(name),
            Origin::Env(name) => f.write_str(name),
            Origin::DotEnv(path, name) => write!(f, "{name} in {}", path.display()),
            Origin::File(path, name) => write!(f, "`{name}` in {}", path.display()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingText {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// For each setting what counts, and the places, which must be known to read the file.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    said: BTreeMap<Key, SettingText>,
    pub(crate) ignored: Option<Ignored>,
    pub(crate) places: Places,
    pub(crate) runtimes: Vec<NamedRuntime>,
}

impl Layers {
    pub(crate) fn gather(flags: &Flags, ambient: &Ambient) -> Result<Layers, ConfigError> {
        let mut said = BTreeMap::new();
        for (key, flag, text) in &flags.settings {
            said.entry(*key)
                .or_insert_with(|| SettingText { text: text.clone(), origin: Origin::Flag(flag) });
        }
        for key in Key::ALL {
            if let Some(text) = ambient.var(key.env()) {
                let text = text.to_owned();
                said.entry(*key).or_insert_with(|| SettingText { text, origin: Origin::Env(key.env()) });
            }
        }
        let from_file = dot_env::read(&flags.env_file, &ambient.cwd)?;
        for (key, spoken) in from_file.settings {
            said.entry(key).or_insert(spoken);
        }
        let home = said.get(&Key::Home).map(|home| ambient.cwd.join(&home.text));
        let places = places::find(flags, home.as_deref(), ambient)?;
        let from_config = file::read(&places.config_file, flags.config_file.is_some())?;
        for (key, spoken) in from_config.settings {
            said.entry(key).or_insert(spoken);
        }
        Ok(Layers { said, ignored: from_file.ignored, places, runtimes: from_config.runtimes })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&SettingText> {
        self.said.get(&key)
    }
}
