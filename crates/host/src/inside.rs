//! What a session in a cage sees, looked at from outside: through the root directory of its shell.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use rustix::process::Pid;

/// Whether there is a directory. Links lead where they lead inside. What cannot be looked at is left to the shell.
pub(crate) fn is_dir(shell: Option<Pid>, path: &OsStr) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = shell.map(|shell| {
        open(format!("/proc/{}/root", shell.as_raw_nonzero()), flags | OFlags::DIRECTORY, Mode::empty())
    });
    let Some(Ok(root)) = root else { return Ok(true) };
    let below = match path.as_bytes().iter().position(|byte| *byte != b'/') {
        Some(at) => OsStr::from_bytes(&path.as_bytes()[at..]),
        None => OsStr::new("."),
    };
    match openat2(&root, below, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Ok(found) => Ok(FileType::from_raw_mode(fstat(&found)?.st_mode).is_dir()),
        Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::NAMETOOLONG)) => Err(error.into()),
        // A link of /proc, or a kernel that has no such call.
        Err(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_below_the_root_of_a_process() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let me = Some(rustix::process::getpid());
        assert!(is_dir(me, dir.path().as_os_str()).unwrap());
        assert!(is_dir(me, OsStr::new("/")).unwrap() && is_dir(me, OsStr::new("/proc/self/cwd")).unwrap());
        assert!(!is_dir(me, dir.path().join("file").as_os_str()).unwrap());
        let gone = is_dir(me, dir.path().join("gone").as_os_str()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        assert!(is_dir(None, OsStr::new("/gone")).unwrap(), "left to the shell");
    }
}
