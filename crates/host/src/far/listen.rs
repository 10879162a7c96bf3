//! A host that waits for its first daemon on a socket, since it is not the daemon's child.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trl_protocol::SessionId;

use super::place;

/// How long the daemon that started this may take to connect.
const PATIENCE: Duration = Duration::from_secs(60);

/// Listens here, and goes on as a host with whoever connects first.
pub(super) fn run(path: &Path) -> io::Result<()> {
    crate::detach();
    let became = crate::become_host();
    let listener = bind(path)?;
    serve(&listener, path, became)
}

/// The same in the background: returns when the socket is there, after telling where files are.
pub(super) fn start(base: &Path, id: SessionId) -> io::Result<()> {
    let place = place::of(base, id);
    place::make(base, &place)?;
    place::free_address(&place)?;
    let listener = bind(&place.first)?;
    let program = std::env::current_exe()?;
    let program = place::of_program(&program);
    writeln!(
        io::stdout(),
        "{}\n{}\n{}",
        place.state_dir.display(),
        place.socket.display(),
        program.display()
    )?;
    // SAFETY: there is only this thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let kept = rustix::io::fcntl_dupfd_cloexec(&listener, 3)?;
            drop(listener);
            let listener = crate::detach_keeping(kept)?;
            serve(&UnixListener::from(listener), &place.first, crate::become_host())
        }
        _ => Ok(()),
    }
}

pub(super) fn bind(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    trl_sys::private::listen(path)
}

/// Whoever connects first gets the session, or hears why there is none: nobody reads what this process prints.
fn serve(listener: &UnixListener, path: &Path, became: io::Result<()>) -> io::Result<()> {
    // There is no launcher here that does it.
    trl_confine::linux::cgroups::sweep();
    let first = accept(listener);
    // It is for the first alone; later ones find the host at its own socket.
    fs::remove_file(path).ok();
    match became {
        Ok(()) => crate::serve(first?),
        Err(error) => crate::host::refuse(first?, &error),
    }
}

fn accept(listener: &UnixListener) -> io::Result<UnixStream> {
    let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&patience))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => listener.accept().map(|(stream, _)| stream),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use trl_protocol::frame::{self, Frame};
    use trl_protocol::wire::{FromHost, HOST_PROTOCOL, ToHost};

    use super::*;

    #[test]
    fn the_first_daemon_hears_why_there_is_no_host() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("first");
        let listener = bind(&path).unwrap();
        let mut daemon = UnixStream::connect(&path).unwrap();
        let mut hello = Vec::new();
        frame::put_json(&mut hello, &ToHost::Hello { protocol: HOST_PROTOCOL, create: None }).unwrap();
        daemon.write_all(&hello).unwrap();
        serve(&listener, &path, Err(io::Error::from_raw_os_error(libc::EAGAIN))).unwrap();
        let mut answer = Vec::new();
        daemon.read_to_end(&mut answer).unwrap();
        let Some((Frame::Json(json), _)) = frame::split(&answer).unwrap() else { unreachable!("{answer:?}") };
        let FromHost::Fault { req: 0, fault } = serde_json::from_slice(json).unwrap() else {
            unreachable!("{answer:?}")
        };
        assert!(fault.message.contains("could not be started"), "{fault:?}");
        assert!(!path.exists());
    }
}
