//! Who stands behind a host: a process that does nothing until the host has ended.
//!
//! A host that is killed cannot end what it has started. Its keeper is its parent and a
//! subreaper, so whatever the host leaves, in whatever session, with whatever environment,
//! becomes the keeper's, which ends it all and then itself. It holds no descriptor and
//! asks nobody, so there is little that could end it first.

use std::io;

use rustix::process::{WaitOptions, WaitStatus};

use crate::tree;

/// Goes on as the host, a child of its keeper.
pub fn stand_behind() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // SAFETY: there is only this thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        host => keep(host),
    }
}

fn keep(host: libc::pid_t) -> ! {
    // A connection held here would look to the daemon as if the host were alive.
    // SAFETY: nothing below uses a descriptor that was open before.
    unsafe { libc::close_range(0, libc::c_uint::MAX, 0) };
    // Who ends everything at once with one of these wants the host to do it in good order.
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: ignoring a signal has no preconditions.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let mut was_killed = false;
    while let Some((ended, status)) = wait_for_child() {
        if ended == host {
            was_killed = status.signaled();
            break;
        }
    }
    let me = rustix::process::getpid().as_raw_nonzero().get();
    while !tree::is_childless(me) {
        tree::kill_all(me);
        wait_for_child();
        // All that have ended by now, so that thousands are not looked at once for each of them.
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    }
    if was_killed {
        trl_confine::linux::cgroups::sweep();
    }
    std::process::exit(0)
}

/// One that has ended, and how; None when there is no child left.
fn wait_for_child() -> Option<(libc::pid_t, WaitStatus)> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => return Some((pid.as_raw_nonzero().get(), status)),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}
