//! The three directories: flags over `TRL_HOME` over the XDG ones over plain defaults.

use std::path::{Path, PathBuf};

use super::ConfigError;
use super::layers::{Ambient, Flags};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Sockets and control channels.
    pub(crate) runtime: PathBuf,
    /// Journals and logs.
    pub(crate) state: PathBuf,
    pub(crate) config_file: PathBuf,
}

pub(super) fn find(flags: &Flags, home: Option<&Path>, ambient: &Ambient) -> Result<Places, ConfigError> {
    let flag = |path: &Option<PathBuf>| path.as_ref().map(|path| ambient.cwd.join(path));
    let runtime = match (flag(&flags.runtime_dir), home) {
        (Some(dir), _) => dir,
        (None, Some(home)) => home.join("run"),
        (None, None) => xdg(ambient, "XDG_RUNTIME_DIR")
            .unwrap_or_else(|| PathBuf::from(format!("/tmp/trl-{}", ambient.uid))),
    };
    let state = match (flag(&flags.state_dir), home) {
        (Some(dir), _) => dir,
        (None, Some(home)) => home.join("state"),
        (None, None) => match xdg(ambient, "XDG_STATE_HOME") {
            Some(dir) => dir,
            None => user_home(ambient, "XDG_STATE_HOME")?.join(".local/state/trl"),
        },
    };
    let config_file = match (flag(&flags.config_file), home) {
        (Some(file), _) => file,
        (None, Some(home)) => home.join("config/config.toml"),
        (None, None) => match xdg(ambient, "XDG_CONFIG_HOME") {
            Some(dir) => dir.join("config.toml"),
            None => user_home(ambient, "XDG_CONFIG_HOME")?.join(".config/trl/config.toml"),
        },
    };
    Ok(Places { runtime, state, config_file })
}

/// The base directory standard has relative paths ignored.
fn xdg(ambient: &Ambient, name: &str) -> Option<PathBuf> {
    ambient.var(name).map(Path::new).filter(|dir| dir.is_absolute()).map(|dir| dir.join("trl"))
}

fn user_home(ambient: &Ambient, instead: &'static str) -> Result<PathBuf, ConfigError> {
    let home = ambient.var("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    home.ok_or(ConfigError::NoHome(instead))
}
