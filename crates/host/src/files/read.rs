//! `file.read`

use std::io::{self, Read as _, Seek as _, SeekFrom};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use trl_protocol::fault::Fault;
use trl_protocol::file::{FileDone, MAX_READ_BYTES, ReadParams};

use super::fault;
use super::path::{Located, absolute};

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
    // Files of the kernel say that they are empty; files may also grow or shrink meanwhile.
    let total = if (bytes.len() as u64) < limit {
        next_offset.max(size.min(next_offset))
    } else {
        size.max(next_offset)
    };
    let total = if offset > size && bytes.is_empty() { size } else { total };
    let is_whole = offset == 0 && next_offset == total;
    let sha256 = is_whole.then(|| hex(&Sha256::digest(&bytes)));
    let (offset, next_offset) = (offset.min(total), next_offset.min(total));
    Ok((FileDone::Read { offset, next_offset, total, sha256 }, bytes))
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
