//! Giving up privileges for good: no capabilities, and none to be gained.

use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Part, Step, checked};

/// The highest capability that any kernel may know.
const LAST_CAPABILITY: i32 = 63;

/// No program that is started from here on has more than this process: setuid bits mean nothing.
pub(super) fn gain_none() -> Result<(), Step> {
    rustix::thread::set_no_new_privs(true).map_err(Step::of(Part::Privileges, "set no_new_privs"))
}

pub(super) fn drop_all() -> Result<(), Step> {
    let step = |what| Step::of(Part::Privileges, what);
    for capability in 0..=LAST_CAPABILITY {
        // SAFETY: takes numbers.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match checked(result.into()) {
            // Beyond the last one, or an ordinary user without namespaces, who has none to drop.
            Ok(_) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(step("empty the bounding set")(error)),
        }
    }
    // The kernel takes from the ambient ones what is not in these.
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(step("drop capabilities"))
}
