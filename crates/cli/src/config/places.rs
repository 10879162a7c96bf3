//! The three directories: flags over `TRL_HOME` over the XDG ones over plain defaults.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use trl_client::home_mark;

use super::ConfigError;
use super::layers::{Ambient, Flags};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Sockets and control channels.
    pub(crate) runtime: PathBuf,
    /// Journals and logs.
    pub(crate) state: PathBuf,
    pub(crate) config_file: PathBuf,
    /// The directory of that file, or the file alone if a flag names it.
    pub(crate) config: PathBuf,
    /// The sockets are where every process of this user looks for them, whatever its home.
    pub(crate) is_common_to_homes: bool,
}

pub(super) fn find(flags: &Flags, home: Option<&Path>, ambient: &Ambient) -> Result<Places, ConfigError> {
    let flag = |path: &Option<PathBuf>| path.as_ref().map(|path| ambient.cwd.join(path));
    let state = match (flag(&flags.state_dir), home) {
        (Some(dir), _) => dir,
        (None, Some(home)) => home.join("state"),
        (None, None) => match xdg(ambient, "XDG_STATE_HOME") {
            Some(dir) => dir,
            None => user_home(ambient, "XDG_STATE_HOME")?.join(".local/state/trl"),
        },
    };
    let (runtime, is_common_to_homes) = match (flag(&flags.runtime_dir), home) {
        (Some(dir), _) => (dir, false),
        (None, Some(home)) => (home.join("run"), false),
        (None, None) => match xdg(ambient, "XDG_RUNTIME_DIR") {
            Some(dir) => (dir, false),
            None => (beside_other_homes(format!("/tmp/trl-{}", ambient.uid).into(), &state), true),
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
    let config = match (&flags.config_file, config_file.parent()) {
        (None, Some(dir)) => dir.to_owned(),
        _ => config_file.clone(),
    };
    Ok(Places { runtime, state, config_file, config, is_common_to_homes })
}

/// The directory for sockets that all homes of a user have in common. While the daemon or the sessions of
/// another home are there, this home has a directory below it, and keeps that from then on.
fn beside_other_homes(common: PathBuf, state: &Path) -> PathBuf {
    let own = common.join(format!("home-{:08x}", fingerprint(state)));
    let socket = common.join("trl.sock");
    let hosts = || std::fs::read_dir(common.join("hosts")).is_ok_and(|mut hosts| hosts.next().is_some());
    let is_taken = || {
        home_mark::of_another(&socket, state).is_some() && (UnixStream::connect(&socket).is_ok() || hosts())
    };
    if own.is_dir() || is_taken() { own } else { common }
}

/// FNV-1a: it must stay the same in every version, since it is part of a path.
fn fingerprint(path: &Path) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    path.as_os_str().as_bytes().iter().fold(0x811c_9dc5, step)
}

/// The base directory standard has relative paths ignored.
fn xdg(ambient: &Ambient, name: &str) -> Option<PathBuf> {
    ambient.var(name).map(Path::new).filter(|dir| dir.is_absolute()).map(|dir| dir.join("trl"))
}

fn user_home(ambient: &Ambient, instead: &'static str) -> Result<PathBuf, ConfigError> {
    let home = ambient.var("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    home.ok_or(ConfigError::NoHome(instead))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_home_makes_way_for_another_that_is_there_and_keeps_its_own_place() {
        let dir = tempfile::tempdir().unwrap();
        let (common, ours, theirs) =
            (dir.path().join("run"), dir.path().join("ours"), dir.path().join("theirs"));
        let place = |state: &Path| beside_other_homes(common.clone(), state);
        std::fs::create_dir_all(common.join("hosts")).unwrap();
        assert_eq!(place(&ours), common, "nobody is there");
        home_mark::write(&common.join("trl.sock"), &theirs).unwrap();
        assert_eq!(place(&ours), common, "a daemon that was killed and left nothing");
        let listener = UnixListener::bind(common.join("trl.sock")).unwrap();
        let own = place(&ours);
        assert!(own.starts_with(&common) && own != common, "{own:?}");
        assert_eq!(place(&theirs), common);
        drop(listener);
        assert_eq!(place(&ours), common);
        std::fs::write(common.join("hosts/s-00000001.sock"), "").unwrap();
        assert_eq!(place(&ours), own, "a session is there");
        std::fs::remove_file(common.join("hosts/s-00000001.sock")).unwrap();
        std::fs::create_dir(&own).unwrap();
        assert_eq!(place(&ours), own, "it was there before");
        assert_eq!(place(&theirs), common);
    }
}
