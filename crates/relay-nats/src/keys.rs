//! Key files: a seed with a word about whose it is, readable by its owner only.

use std::io::{self, Write as _};
use std::path::Path;

use nkeys::KeyPair;

use super::access::User;
use super::secret_file::BadSecret;

/// A new file; never over an old one.
pub(crate) fn write(path: &Path, about: &str, seed: &str) -> io::Result<()> {
    let mut file = trl_sys::private::file_options().write(true).create_new(true).open(path)?;
    writeln!(file, "# {about}")?;
    writeln!(file, "{seed}")?;
    file.sync_all()
}

/// The public key of the user in this file, which is made if there is none.
pub(crate) fn find_or_make(path: &Path, about: &str) -> Result<String, BadSecret> {
    let io = |source| BadSecret::Io { path: path.to_owned(), source };
    if !path.exists() {
        let seed = KeyPair::new_user().seed().map_err(|error| io(io::Error::other(error)))?;
        write(path, about, &seed).map_err(io)?;
    }
    Ok(User::read(path)?.public_key)
}
