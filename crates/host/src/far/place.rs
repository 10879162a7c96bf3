//! Where the sessions of a daemon elsewhere have their files here.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use trl_journal::{Moment, SessionFile};
use trl_protocol::SessionId;
use trl_sys::private::create_dir;

/// The paths of one session.
#[derive(Debug)]
pub(super) struct SessionPaths {
    pub(super) socket: PathBuf,
    /// For the first daemon, which brings the session.
    pub(super) first: PathBuf,
    /// Of the process that keeps a daemon's conversation with the host.
    pub(super) relay: PathBuf,
    /// Of one that an older version has started. It takes bytes, not descriptors.
    pub(super) old_relay: PathBuf,
    pub(super) state_dir: PathBuf,
}

/// The directory of a daemon's sessions. A name that is no path is one of those in the user's state directory.
pub(super) fn base(name: &str) -> PathBuf {
    if name.starts_with('/') {
        return PathBuf::from(name);
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("HOME").unwrap_or_else(|| PathBuf::from("/tmp"));
    absolute("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state")).join("trl/far").join(name)
}

pub(super) fn of(base: &Path, id: SessionId) -> SessionPaths {
    let hosts = base.join("hosts");
    SessionPaths {
        socket: hosts.join(format!("{id}.sock")),
        first: hosts.join(format!("{id}.first")),
        relay: hosts.join(format!("{id}.descriptors.relay")),
        old_relay: hosts.join(format!("{id}.relay")),
        state_dir: base.join("sessions").join(id.to_string()),
    }
}

/// What an isolated session must not write, since the next one runs it outside of any isolation: the directory that
/// the program was brought to. In a container it lies in `/`, beside everything else.
pub(super) fn of_program(program: &Path) -> &Path {
    program.parent().filter(|dir| *dir != Path::new("/")).unwrap_or(program)
}

pub(super) fn make(base: &Path, place: &SessionPaths) -> io::Result<()> {
    create_dir(&base.join("hosts"))?;
    create_dir(&place.state_dir)
}

/// Removes the address that a dead host of the session has left.
pub(super) fn free_address(place: &SessionPaths) -> io::Result<()> {
    match UnixStream::connect(&place.socket) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "the session has a host already")),
        Err(_) => unless_missing(fs::remove_file(&place.socket)),
    }
}

/// One line per fact: `address ID`, `stored ID`.
pub(super) fn list(base: &Path) -> io::Result<String> {
    let mut text = String::new();
    for (dir, suffix, word) in [("hosts", ".sock", "address"), ("sessions", "", "stored")] {
        for entry in fs::read_dir(base.join(dir)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Only a host's own socket is tried: another kind takes the first who connects for its daemon.
            let id = name.strip_suffix(suffix).and_then(|id| id.parse::<SessionId>().ok());
            let Some(id) = id else { continue };
            // A socket on which nobody listens is all that is left of a host.
            if suffix.is_empty() || UnixStream::connect(entry.path()).is_ok() {
                text += &format!("{word} {id}\n");
            } else {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
    Ok(text)
}

/// How many milliseconds ago a session last wrote about itself.
pub(super) fn age(place: &SessionPaths) -> io::Result<()> {
    let file: SessionFile = SessionFile::read(&place.state_dir).map_err(|_| io::ErrorKind::InvalidData)?;
    let written = file.written.ok_or(io::ErrorKind::InvalidData)?;
    writeln!(io::stdout(), "{}", written.age(&Moment::now()).as_millis())
}

pub(super) fn remove(place: &SessionPaths) -> io::Result<()> {
    super::relay::dismiss(place);
    // A host that still waits for its first daemon ends when that one leaves without a word.
    drop(UnixStream::connect(&place.first));
    kill(place)?;
    for file in [&place.socket, &place.first] {
        unless_missing(fs::remove_file(file))?;
    }
    unless_missing(fs::remove_dir_all(&place.state_dir))
}

fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Ends the process that listens on the session's socket. Its keeper ends the rest.
pub(super) fn kill(place: &SessionPaths) -> io::Result<()> {
    let stream = match UnixStream::connect(&place.socket) {
        Ok(stream) => stream,
        // Nobody listens: there is nothing to end.
        Err(_) => return unless_missing(fs::remove_file(&place.socket)),
    };
    let pid = rustix::net::sockopt::socket_peercred(&stream)?.pid;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    unless_missing(fs::remove_file(&place.socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_programs_is_never_the_whole_system() {
        for (program, hidden) in
            [("/home/me/.cache/trl/host-1", "/home/me/.cache/trl"), ("/.trl-host-1", "/.trl-host-1")]
        {
            assert_eq!(of_program(Path::new(program)), Path::new(hidden));
        }
    }
}
