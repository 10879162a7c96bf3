//! Whether a socket can be trusted: who can have put it where it is, and who is at its other end.
//!
//! Clients check both before they send anything, and so do the daemon and its session hosts with each other.
//! Only this user and root are trusted. In a directory that others can write to, anybody could
//! replace the socket by one of their own; the sticky bit prevents that, as in `/tmp`, but only for
//! what belongs to this user.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    #[error(
        "{} belongs to user {owner}, not to this one ({me}); that user could read everything that is sent there",
        path.display()
    )]
    Owner { path: PathBuf, owner: u32, me: u32 },
    #[error("{} can be written by other users (mode {mode:04o}), who could replace the socket", path.display())]
    Writable { path: PathBuf, mode: u32 },
    #[error("user {uid} is at the other end of {}, not this user ({me}); nothing was sent", path.display())]
    Peer { path: PathBuf, uid: u32, me: u32 },
    #[error("{}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
}

impl Untrusted {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        const ELSEWHERE: &str = "choose a directory of your own with XDG_RUNTIME_DIR or TRL_HOME";
        match self {
            Untrusted::Owner { path, .. } => {
                Some(format!("have {} removed by its owner or root, or {ELSEWHERE}", path.display()))
            }
            Untrusted::Writable { path, .. } => {
                Some(format!("`chmod go-w {}` closes it; or {ELSEWHERE}", path.display()))
            }
            Untrusted::Peer { .. } => Some(ELSEWHERE.to_owned()),
            Untrusted::Io { .. } => None,
        }
    }
}

/// Fails if anybody but this user and root could have chosen what is at the path, or could replace
/// it: every directory on the way counts, and every link. What does not exist yet is no reason to fail.
pub fn check_path(path: &Path) -> Result<(), Untrusted> {
    let failed = |error| Untrusted::Io { path: path.to_owned(), error };
    let path = std::path::absolute(path).map_err(failed)?;
    let mut at = PathBuf::from("/");
    check_entry(&at, &at.symlink_metadata().map_err(failed)?)?;
    let mut ahead: Vec<OsString> = Vec::new();
    push(&mut ahead, &path);
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let meta = match next.symlink_metadata() {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Untrusted::Io { path: next, error }),
        };
        check_entry(&next, &meta)?;
        if !meta.is_symlink() {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(failed(io::Error::other("too many symbolic links")));
        }
        let target = next.read_link().map_err(failed)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        push(&mut ahead, &target);
    }
    Ok(())
}

/// Puts the parts of a path on top, the first one uppermost.
fn push(ahead: &mut Vec<OsString>, path: &Path) {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    ahead.extend(path.components().rev().filter_map(part));
}

fn check_entry(path: &Path, meta: &Metadata) -> Result<(), Untrusted> {
    let me = rustix::process::geteuid().as_raw();
    let is_trusted = is_ours(meta.uid(), me) || meta.is_dir() && stands_for_all(meta.uid());
    if !is_trusted {
        return Err(Untrusted::Owner { path: path.to_owned(), owner: meta.uid(), me });
    }
    let (mode, is_sticky) = (meta.mode() & 0o7777, meta.mode() & 0o1000 != 0);
    if meta.is_dir() && mode & 0o022 != 0 && !is_sticky {
        return Err(Untrusted::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Root could do everything that we can.
pub(crate) fn is_ours(owner: u32, me: u32) -> bool {
    owner == me || owner == 0
}

/// In a user namespace that does not map root, the system's directories appear to belong to this user,
/// who stands for everybody that is not mapped. There the check of the peer must do.
fn stands_for_all(uid: u32) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    is_unmapped(uid, &read("/proc/sys/kernel/overflowuid"), &read("/proc/self/uid_map"))
}

fn is_unmapped(uid: u32, overflow: &str, map: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let is_mapped = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next().and_then(number);
        let count = words.nth(1).and_then(number);
        match (first, count) {
            (Some(first), Some(count)) => (first..first + count).contains(&u64::from(uid)),
            _ => true,
        }
    };
    number(overflow.trim()) == Some(u64::from(uid)) && !map.is_empty() && !map.lines().any(is_mapped)
}

/// Fails unless the other end of a Unix socket is this user's or root's. `path` is for the message.
pub fn check_peer(socket: impl AsFd, path: &Path) -> Result<(), Untrusted> {
    let failed = |error| Untrusted::Io { path: path.to_owned(), error };
    let (uid, me) = (peer_uid(socket).map_err(failed)?, rustix::process::geteuid().as_raw());
    if is_ours(uid, me) { Ok(()) } else { Err(Untrusted::Peer { path: path.to_owned(), uid, me }) }
}

/// Of a listener's client: who connected. Of a client's server: who began to listen.
#[cfg(target_os = "linux")]
fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    use std::os::fd::AsRawFd as _;
    // A peer outside of this container has the process id 0, which the safe wrapper cannot express.
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    let place = (&raw mut peer).cast();
    // SAFETY: the descriptor is borrowed for the call, and the result has a place of that size.
    match unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut size) } {
        0 => Ok(peer.uid),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    use std::os::fd::AsRawFd as _;
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: the descriptor is borrowed for the call, and both results have a place.
    match unsafe { libc::getpeereid(socket.as_fd().as_raw_fd(), &mut uid, &mut gid) } {
        0 => Ok(uid),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn we_and_root_are_trusted_and_nobody_else() {
        for (owner, me, trusted) in
            [(5, 5, true), (0, 5, true), (6, 5, false), (5, 0, false), (0, 0, true), (u32::MAX, 5, false)]
        {
            assert_eq!(is_ours(owner, me), trusted, "{owner} {me}");
        }
    }

    #[test]
    fn the_user_that_stands_for_all_is_the_one_that_is_not_mapped() {
        let outside = "         0          0 4294967295\n";
        let inside = "      1000       1000          1\n";
        let two = "0 1000 1\n100 2000 65436\n";
        for (uid, overflow, map, expected) in [
            (65534, "65534\n", inside, true),
            (65534, "65534\n", outside, false),
            (1000, "65534\n", inside, false),
            (1000, "1000\n", inside, false),
            (1001, "1001\n", inside, true),
            (999, "999\n", inside, true),
            (65535, "65535\n", two, false),
            (65536, "65536\n", two, true),
            (50, "50\n", two, true),
            (65534, "65534\n", "", false),
            (65534, "65534\n", "nonsense\n", false),
            (65534, "", inside, false),
        ] {
            assert_eq!(is_unmapped(uid, overflow, map), expected, "{uid} {overflow:?} {map:?}");
        }
    }

    #[test]
    fn who_is_at_the_other_end_is_asked_of_the_kernel() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&ours).unwrap(), rustix::process::geteuid().as_raw());
        let no_socket = fs::File::open("/dev/null").unwrap();
        assert!(matches!(check_peer(&no_socket, Path::new("x")), Err(Untrusted::Io { .. })));
    }

    #[test]
    fn as_many_links_as_allowed_are_followed_and_what_cannot_be_looked_at_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("0");
        fs::write(&file, "").unwrap();
        let link = |number: usize| dir.path().join(number.to_string());
        for number in 1..=MAX_LINKS + 1 {
            symlink(link(number - 1), link(number)).unwrap();
        }
        check_path(&link(MAX_LINKS)).unwrap();
        assert!(check_path(&link(MAX_LINKS + 1)).is_err());
        assert!(matches!(check_path(&file.join("below")), Err(Untrusted::Io { .. })));
    }

    #[test]
    fn a_directory_of_our_own_below_a_sticky_one_is_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("run/trl.sock");
        check_path(&socket).unwrap();
        fs::create_dir(dir.path().join("run")).unwrap();
        chmod(dir.path(), 0o1777);
        let listener = UnixListener::bind(&socket).unwrap();
        check_path(&socket).unwrap();
        let (ours, theirs) = (UnixStream::connect(&socket).unwrap(), listener.accept().unwrap().0);
        check_peer(&ours, &socket).unwrap();
        check_peer(&theirs, &socket).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_wherever_it_is_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b/c");
        fs::create_dir_all(&inner).unwrap();
        let link = dir.path().join("link");
        symlink("a/b/../b/c", &link).unwrap();
        let absolute = dir.path().join("absolute");
        symlink(&inner, &absolute).unwrap();
        for open in [&inner, &dir.path().join("a/b"), &dir.path().join("a")] {
            for mode in [0o777, 0o770, 0o707, 0o772] {
                chmod(open, mode);
                for start in [&inner, &link, &absolute] {
                    let error = check_path(&start.join("trl.sock")).unwrap_err();
                    assert!(error.to_string().contains("can be written by other users"), "{error}");
                    assert!(error.help().is_some_and(|help| help.contains("chmod go-w")), "{error:?}");
                }
            }
            chmod(open, 0o755);
        }
        for start in [&inner, &link, &absolute] {
            check_path(&start.join("trl.sock")).unwrap();
        }
    }

    #[test]
    fn links_that_lead_nowhere_end() {
        let dir = tempfile::tempdir().unwrap();
        symlink("round", dir.path().join("round")).unwrap();
        check_path(&dir.path().join("round/trl.sock")).unwrap_err();
        symlink("/nonexistent/place", dir.path().join("gone")).unwrap();
        check_path(&dir.path().join("gone/trl.sock")).unwrap();
    }
}
