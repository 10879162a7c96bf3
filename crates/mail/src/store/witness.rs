//! A small file beside the database that notices a database from the past.
//!
//! A ratchet must never run twice from the same point. The witness counts starts and
//! seals; a database that is behind it was restored from a backup, and its ratchets
//! may then only open, never seal. It is written after a commit, once in many seals, so
//! it never accuses a database that only crashed. What it cannot see: after a crash, a
//! backup younger than the last note; and a copy of the whole directory, witness and all.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::MailError;

/// Seals from one note to the next.
pub(crate) const SEAL_BLOCK: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) boot: u64,
    pub(crate) seals: u64,
    /// Closed in good order: `seals` is exact, else there may be more.
    pub(crate) closed: bool,
}

impl Witness {
    /// Whether a database with these counts is older than what was witnessed.
    pub(crate) fn is_ahead_of(&self, boot: u64, seals: u64) -> bool {
        self.boot > boot
            || (self.boot == boot && self.closed && self.seals != seals)
            || (self.boot == boot && seals < self.seals)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct WitnessFile(PathBuf);

impl WitnessFile {
    pub(crate) fn in_dir(dir: &Path) -> WitnessFile {
        WitnessFile(dir.join("mail.witness"))
    }

    pub(crate) fn read(&self) -> Option<Witness> {
        let text = std::fs::read_to_string(&self.0).ok()?;
        let mut words = text.split_ascii_whitespace();
        Some(Witness {
            boot: words.next()?.parse().ok()?,
            seals: words.next()?.parse().ok()?,
            closed: words.next()? == "closed",
        })
    }

    /// Durable when it returns: a new file, synced, in place of the old one.
    pub(crate) fn write(&self, witness: Witness) -> Result<(), MailError> {
        let fresh = self.0.with_extension("witness.new");
        let write = || -> std::io::Result<()> {
            // A file that was left half-written may have another mode.
            let _ = std::fs::remove_file(&fresh);
            let mut file = trl_sys::private::file_options().write(true).create_new(true).open(&fresh)?;
            let word = if witness.closed { "closed" } else { "open" };
            writeln!(file, "{} {} {word}", witness.boot, witness.seals)?;
            file.sync_all()?;
            std::fs::rename(&fresh, &self.0)?;
            File::open(self.0.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        write().map_err(MailError::io("cannot write the witness of the mail store"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_can_read_it_whatever_was_there_before() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = WitnessFile::in_dir(dir.path());
        for name in ["mail.witness", "mail.witness.new"] {
            std::fs::write(dir.path().join(name), "0 0 open").unwrap();
            std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let witness = Witness { boot: 1, seals: 2, closed: true };
        file.write(witness).unwrap();
        let mode = dir.path().join("mail.witness").metadata().unwrap().permissions().mode();
        assert_eq!((mode & 0o777, file.read()), (0o600, Some(witness)));
        assert!(!dir.path().join("mail.witness.new").exists());
    }

    #[test]
    fn an_older_database_is_noticed() {
        let closed = Witness { boot: 3, seals: 100, closed: true };
        let open = Witness { boot: 3, seals: 64, closed: false };
        let cases = [
            (closed, 3, 100, false),
            (closed, 3, 99, true),
            (closed, 3, 101, true),
            (closed, 2, 100, true),
            (closed, 4, 100, false),
            (open, 3, 64, false),
            (open, 3, 130, false),
            (open, 3, 63, true),
            (open, 2, 164, true),
        ];
        for (witness, boot, seals, ahead) in cases {
            assert_eq!(witness.is_ahead_of(boot, seals), ahead, "{witness:?} {boot} {seals}");
        }
    }
}
