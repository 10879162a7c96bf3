//! A process in namespaces of its own: pid 1 of everything that it will start.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::{Part, Step, checked};

/// Which namespaces are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fresh {
    pub network: bool,
}

/// What `clone3` takes, as of Linux 5.5.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

pub(super) enum Side {
    /// The process that goes on outside, with a handle on pid 1.
    Outside { pid: i32, pidfd: OwnedFd },
    /// Pid 1 inside.
    Inside,
}

/// Goes on twice: outside, and as pid 1 of new namespaces. Only in a process with one thread.
pub(super) fn split(fresh: Fresh) -> Result<Side, Step> {
    let mut flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    if fresh.network {
        flags |= libc::CLONE_NEWNET;
    }
    let mut pidfd: i32 = -1;
    let mut arguments = CloneArgs {
        flags: u64::from(flags as u32) | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    // SAFETY: without shared memory this is a fork; there is one thread, so the child may do whatever
    // the parent may.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<CloneArgs>()) };
    match checked(result)
        .map_err(Step::of(Part::Namespaces, "create user, mount, pid, ipc and uts namespaces"))?
    {
        0 => Ok(Side::Inside),
        pid => {
            // SAFETY: the kernel has just opened it for us.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Side::Outside { pid: pid as i32, pidfd })
        }
    }
}

/// Inside: this user is who it was, and nobody else exists. `user` and `group` are as seen from outside.
pub(super) fn map_own_ids(user: u32, group: u32) -> Result<(), Step> {
    let step = |what| Step::of(Part::Namespaces, what);
    // The files below belong to root as long as this process may not be looked into.
    set_dumpable(true).map_err(step("map the user"))?;
    write("/proc/self/setgroups", "deny").map_err(step("write setgroups"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1")).map_err(step("map the user"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1")).map_err(step("map the group"))?;
    set_dumpable(false).map_err(step("map the user"))
}

/// Whether other processes of the same user may look into this one.
pub(super) fn set_dumpable(dumpable: bool) -> rustix::io::Result<()> {
    // SAFETY: takes a number.
    checked(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, i32::from(dumpable), 0, 0, 0) }.into()).map(drop)
}

fn write(path: &str, text: &str) -> rustix::io::Result<()> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    match rustix::io::write(&file, text.as_bytes())? {
        written if written == text.len() => Ok(()),
        _ => Err(Errno::IO),
    }
}

/// Its own cgroups as the root of what it sees of them, after it has joined them.
pub(super) fn own_cgroup_view() -> Result<(), Step> {
    // SAFETY: takes a number and affects this process alone.
    checked(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())
        .map(drop)
        .map_err(Step::of(Part::Namespaces, "create a cgroup namespace"))
}

/// Inside a network namespace of its own: a socket there, which is accepted from outside.
pub(super) fn listen_on_loopback(port: u16) -> Result<OwnedFd, Step> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
    let step = |what| Step::of(Part::Network, what);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .map_err(step("open a socket for the proxy"))?;
    let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
    bind(&socket, &address).map_err(step("bind the proxy's socket"))?;
    listen(&socket, 1024).map_err(step("listen for the proxy"))?;
    Ok(socket)
}

/// Inside a network namespace of its own: 127.0.0.1 works.
pub(super) fn raise_loopback() -> Result<(), Step> {
    let step = |what| Step::of(Part::Network, what);
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
        .map_err(step("open a socket"))?;
    // SAFETY: all zeros is a valid request; its name is shorter than the field.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request)
    };
    checked(result.into()).map(drop).map_err(step("bring up loopback"))
}
