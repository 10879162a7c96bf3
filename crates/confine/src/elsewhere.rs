//! Systems without Landlock.

use std::path::Path;

pub(super) const NAME: &str = "none";

pub(super) fn check() -> Result<(), String> {
    Err("commands can be confined on Linux only (Landlock and seccomp), so there are no automatic answers here"
        .to_owned())
}

pub(super) fn enter(_dir: &Path, _named: &[&Path], _network: bool) -> Result<(), String> {
    check()
}
