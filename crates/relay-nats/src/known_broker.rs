//! The broker that everything was published to, in a file that only its owner reads.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const MODE: u32 = 0o600;

pub(crate) fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Writes only what is not there already; also narrows a file of an earlier version.
pub(crate) fn keep(path: &Path, id: &str) -> std::io::Result<()> {
    let is_private = path.metadata().is_ok_and(|found| found.permissions().mode() & 0o777 == MODE);
    if is_private && read(path).as_deref() == Some(id) {
        return Ok(());
    }
    let mut file = trl_sys::private::file_options().write(true).create(true).truncate(true).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
    file.write_all(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_reads_it_whatever_was_there_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("broker");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        keep(&path, "one").unwrap();
        assert_eq!((mode(), read(&path).as_deref()), (0o600, Some("one")));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        keep(&path, "one").unwrap();
        assert_eq!((mode(), read(&path).as_deref()), (0o600, Some("one")));
    }
}
