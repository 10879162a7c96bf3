//! Are the directories ours alone, with room in them, and is the socket's path usable?

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::Check;
use crate::config::Settings;
use crate::human;

const LITTLE: u64 = 512 << 20;
const TOO_LITTLE: u64 = 32 << 20;

pub(super) fn check(settings: &Settings) -> Vec<Check> {
    let places = &settings.places;
    vec![
        directory("runtime directory", &places.runtime),
        directory("state directory", &places.state),
        disk(&places.state),
        socket(&settings.socket),
    ]
}

fn directory(name: &'static str, dir: &Path) -> Check {
    let shown = dir.display().to_string();
    let elsewhere = "Choose another with TRL_HOME, or mend its owner and mode.";
    let meta = match std::fs::symlink_metadata(dir) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return not_yet(name, dir),
        Err(error) => {
            return Check::fail(name, format!("{shown}: {error}"), "The daemon cannot start.", elsewhere);
        }
    };
    let mode = meta.mode() & 0o777;
    if !meta.is_dir() {
        Check::fail(name, format!("{shown} is not a directory"), "The daemon cannot start.", "Move it away.")
    } else if meta.uid() != rustix::process::geteuid().as_raw() {
        let found = format!("{shown} belongs to user {}", meta.uid());
        Check::fail(name, found, "Somebody else could read or replace what is in it.", elsewhere)
    } else if mode & 0o077 != 0 {
        let found = format!("{shown} has mode {mode:o}");
        Check::warn(name, found, "Others may look into it.", format!("chmod 700 {shown}"))
    } else if rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_err() {
        Check::fail(name, format!("{shown} is not writable"), "The daemon cannot start.", elsewhere)
    } else {
        Check::ok(name, shown)
    }
}

/// It will be made; can it?
fn not_yet(name: &'static str, dir: &Path) -> Check {
    let parent = nearest_existing(dir);
    if rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK).is_ok() {
        return Check::ok(name, format!("{} (not there yet)", dir.display()));
    }
    Check::fail(
        name,
        format!("{} is not there, and {} is not writable", dir.display(), parent.display()),
        "The daemon cannot start.",
        "Choose another with TRL_HOME.",
    )
}

fn nearest_existing(dir: &Path) -> PathBuf {
    dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn disk(state: &Path) -> Check {
    const NAME: &str = "disk space";
    let dir = nearest_existing(state);
    let Ok(stat) = rustix::fs::statvfs(&dir) else {
        return Check::ok(NAME, format!("cannot be asked for at {}", dir.display()));
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let found = format!("{} free at {}", human::bytes(free), dir.display());
    let means = "Kept output of commands goes there; without room it is lost.";
    let remedy = "Make room, set TRL_HOME elsewhere, or lower TRL_JOURNAL_BYTES.";
    match free {
        0..TOO_LITTLE => Check::fail(NAME, found, means, remedy),
        TOO_LITTLE..LITTLE => Check::warn(NAME, found, means, remedy),
        _ => Check::ok(NAME, found),
    }
}

fn socket(path: &Path) -> Check {
    const NAME: &str = "socket";
    let shown = path.display().to_string();
    let length = path.as_os_str().len();
    if length > trl_client::MAX_SOCKET_PATH {
        return Check::fail(
            NAME,
            format!("{shown} has {length} bytes, more than the {} allowed", trl_client::MAX_SOCKET_PATH),
            "No daemon can listen there.",
            "Choose a shorter path with TRL_SOCKET_PATH or TRL_HOME.",
        );
    }
    match std::fs::symlink_metadata(path) {
        Err(_) => Check::ok(NAME, format!("{shown} (not there yet)")),
        Ok(meta) if !meta.file_type().is_socket() => Check::fail(
            NAME,
            format!("{shown} is not a socket"),
            "A daemon does not replace what it did not make.",
            "Move it away, or choose another with TRL_SOCKET_PATH.",
        ),
        Ok(meta) if meta.mode() & 0o077 != 0 => Check::warn(
            NAME,
            format!("{shown} has mode {:o}", meta.mode() & 0o777),
            "Others may reach the daemon; it still checks who they are.",
            format!("chmod 600 {shown}"),
        ),
        Ok(_) => Check::ok(NAME, shown),
    }
}
