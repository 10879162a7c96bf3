//! The files of a session without a host, as one stream: for each a line with its size and
//! its name, then its bytes.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

pub(super) fn run(dir: &Path) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (name, size) = (entry.file_name(), entry.metadata()?.len());
        if !entry.file_type()?.is_file() {
            continue;
        }
        let file = File::open(entry.path())?;
        writeln!(out, "{size} {}", name.to_string_lossy())?;
        // One that has shrunk is filled up: its records say what is right in it.
        let copied = io::copy(&mut file.take(size), &mut out)?;
        io::copy(&mut io::repeat(0).take(size - copied), &mut out)?;
    }
    out.flush()
}
