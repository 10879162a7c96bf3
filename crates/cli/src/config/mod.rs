//! Where every setting comes from and what it means.
//!
//! Two steps: [`layers`] gathers what was said (flags, environment, `.env`, config
//! file) as text with its origin; [`mod@resolve`] makes [`Settings`] of it, checked and
//! typed. Nothing after this reads the environment for a setting.

mod dot_env;
mod file;
mod keys;
mod layers;
mod places;
mod resolve;
mod runtimes;
mod value;

pub(crate) use dot_env::EnvFile;
pub(crate) use keys::{Key, NOT_SETTINGS};
pub(crate) use layers::{Ambient, Flags, Layers, Origin};
pub(crate) use resolve::{DEFAULT_LOG, HttpSettings, LogFormat, Settings, resolve};
pub(crate) use value::{bytes as parse_bytes, isolation as parse_isolation, seconds as parse_seconds};

use std::path::PathBuf;

/// A setting that cannot be used, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{origin} is {value:?}: {expected} is expected")]
    Value { origin: Origin, value: String, expected: &'static str },
    #[error("{}: there is no setting `{key}`{hint}", path.display())]
    UnknownKey { path: PathBuf, key: String, hint: String },
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    #[error("there is neither a home directory nor {0}")]
    NoHome(&'static str),
}

impl ConfigError {
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            ConfigError::NoHome(_) => Some("set HOME, or TRL_HOME for everything of trl"),
            ConfigError::Value { .. } | ConfigError::UnknownKey { .. } | ConfigError::File { .. } => None,
        }
    }
}

/// Settings as this process finds them.
pub(crate) fn load(flags: &Flags) -> Result<Settings, ConfigError> {
    let ambient = Ambient::of_this_process();
    let layers = Layers::gather(flags, &ambient)?;
    resolve(&layers, &ambient)
}
