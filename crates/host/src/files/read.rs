//! `file.read`

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use trl_protocol::fault::Fault;
use trl_protocol::file::{FileDone, MAX_READ_BYTES, ReadParams};

use super::fault;
use super::path::{Located, absolute};

/// So much is read of a file whose size the kernel does not tell, to know its size.
const MAX_COUNTED: u64 = 64 * 1024 * 1024;

pub(super) fn perform(dir: &str, params: &ReadParams) -> Result<(FileDone, Vec<u8>), Fault> {
    let path = absolute(dir, &params.path)?;
    read(&path, params).map_err(|error| fault::of(&params.path, &error))
}

fn read(path: &std::path::Path, params: &ReadParams) -> io::Result<(FileDone, Vec<u8>)> {
    let (mut file, stat) = Located::target(path)?.open(OFlags::RDONLY)?;
    let limit = params.limit.unwrap_or(MAX_READ_BYTES).min(MAX_READ_BYTES);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let offset = params.offset;
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    let mut bytes = Vec::new();
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    let next_offset = offset + bytes.len() as u64;
    let total = match bytes.len() as u64 {
        0 if offset > size => size_of_all(&mut file, size)?,
        read if read < limit => next_offset,
        // Files of the kernel say that they are empty; files may also grow or shrink meanwhile.
        _ if size <= next_offset => next_offset + count(&mut file)?,
        _ => size,
    };
    let is_whole = offset == 0 && next_offset == total;
    let sha256 = is_whole.then(|| hex(&Sha256::digest(&bytes)));
    let (offset, next_offset) = (offset.min(total), next_offset.min(total));
    Ok((FileDone::Read { offset, next_offset, total, sha256 }, bytes))
}

/// The size of a file that was read from behind its end.
fn size_of_all(file: &mut File, told: u64) -> io::Result<u64> {
    if told > 0 {
        return Ok(told);
    }
    file.rewind()?;
    count(file)
}

/// How many bytes are left to read.
fn count(file: &mut File) -> io::Result<u64> {
    io::copy(&mut file.take(MAX_COUNTED), &mut io::sink())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
