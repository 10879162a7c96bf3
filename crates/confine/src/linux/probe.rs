//! What this machine supports, found out by trying.

use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, fsconfig_create, fsmount, fsopen,
    mount_change,
};
use rustix::process::{Pid, WaitOptions};

use super::namespaces::{Fresh, Side, split};
use super::{Part, Step};

/// Whether user, mount, pid, ipc, uts and network namespaces and a fresh `/proc` can be had. Asked once.
pub fn namespaces() -> Result<(), Step> {
    static ANSWER: OnceLock<Result<(), Step>> = OnceLock::new();
    ANSWER.get_or_init(try_namespaces).clone()
}

/// In a child that does nothing but system calls, since the process may have other threads.
fn try_namespaces() -> Result<(), Step> {
    let pid = match split(Fresh { network: true })? {
        Side::Inside => {
            let code = try_mounts().err().map_or(0, |errno| errno.raw_os_error());
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(code) }
        }
        Side::Outside { pid, .. } => pid,
    };
    let code = loop {
        match rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status.exit_status().unwrap_or(libc::EIO),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => break error.raw_os_error(),
        }
    };
    match code {
        0 => Ok(()),
        code => Err(Step::new(Part::Mounts, "mount a fresh /proc", Errno::from_raw_os_error(code))),
    }
}

fn try_mounts() -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let config = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&config)?;
    fsmount(&config, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID).map(drop)
}
