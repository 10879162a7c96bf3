//! `file.edit`: one text in a file for another.

use std::io::{self, Read as _};

use rustix::fs::OFlags;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{EditParams, EditReply, FileDone, MAX_EDIT_BYTES};

use super::path::{Located, absolute};
use super::{fault, write};

pub(super) fn perform(dir: &str, params: &EditParams) -> Result<FileDone, Fault> {
    let EditParams { path, old, new, all, .. } = params;
    if old.is_empty() {
        return Err(Fault::invalid("param `old` of file.edit is empty; file.write replaces a whole file")
            .with_details(serde_json::json!({ "field": "old" })));
    }
    let failed = |error: io::Error| fault::of(path, &error);
    let at = Located::target(&absolute(dir, path)?).map_err(failed)?;
    let (file, _) = at.open(OFlags::RDONLY).map_err(failed)?;
    let mut before = Vec::new();
    file.take(MAX_EDIT_BYTES + 1).read_to_end(&mut before).map_err(failed)?;
    if before.len() as u64 > MAX_EDIT_BYTES {
        let what = format!("is larger than the {} MiB that file.edit changes", MAX_EDIT_BYTES >> 20);
        return Err(fault::new(Code::PayloadTooLarge, path, &what));
    }
    let (after, found) = replaced(&before, old.as_bytes(), new.as_bytes());
    let what = match found {
        0 => "does not contain the text of `old`; read the file and give the text exactly as it is there"
            .to_owned(),
        2.. if !all => {
            format!("contains the text of `old` {found} times; give more of what is around it, or set `all`")
        }
        _ => {
            let written = write::replace(&at, None, &after).map_err(failed)?;
            let sha256 = written.sha256.unwrap_or_default();
            return Ok(FileDone::Edited(EditReply { replaced: found, sha256 }));
        }
    };
    Err(fault::new(Code::FileConflict, path, &what)
        .with_details(serde_json::json!({ "path": path, "found": found })))
}

/// With every occurrence replaced, and how many there were. They do not overlap.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> (Vec<u8>, u64) {
    let mut result = Vec::with_capacity(text.len());
    let (mut rest, mut found) = (text, 0);
    while let Some(at) = memchr::memmem::find(rest, old) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(new);
        rest = &rest[at + old.len()..];
        found += 1;
    }
    result.extend_from_slice(rest);
    (result, found)
}
