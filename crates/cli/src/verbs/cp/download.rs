//! From a session to here.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::exec::Encoding;
use trl_protocol::file::{FileEntry, FileKind, ListParams, ReadParams};
use trl_protocol::methods;

use super::local_dir::LocalDir;
use super::progress::Progress;
use super::{PART, There, base_name, is_directory, not_found, part_name};
use crate::failure::{Failure, Result};
use crate::output;

pub(super) async fn copy(
    there: &There<'_>,
    from: &str,
    to: &str,
    recursive: bool,
    progress: &mut Progress,
) -> Result<()> {
    // What a link leads to is meant when it is named itself.
    let entry = match there.target(from).await? {
        Some(entry) => entry,
        None => return Err(not_found(format!("{from:?} does not exist in session {}", there.session))),
    };
    let target = Path::new(to);
    if to.ends_with('/') && !target.is_dir() && entry.kind != FileKind::Directory {
        return Err(Failure::usage(format!("{to:?} is not a directory here"))
            .hint("make it first, or leave the slash out to give the file this name"));
    }
    let (dir, name) = if target.is_dir() {
        let name = base_name(from).ok_or_else(|| {
            Failure::usage(format!("{from:?} has no name of its own")).hint("give TARGET a new name")
        })?;
        (target, name.to_owned())
    } else {
        let name = target.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Failure::usage(format!("{to:?} is not the name of a file")))?;
        (target.parent().unwrap_or(Path::new("")), name.to_owned())
    };
    let failed = |error| Failure::system(to, error);
    let dir = LocalDir::open(dir).map_err(failed)?;
    match (entry.kind, recursive) {
        (FileKind::Directory, true) => {
            directory(there, from, dir.enter(&name).map_err(failed)?, progress).await
        }
        (FileKind::Directory, false) => Err(is_directory(from)),
        (FileKind::File, _) => file(there, &entry, from, &dir, &name, progress).await,
        (FileKind::Symlink | FileKind::Other, _) => {
            Err(Failure::usage(format!("{from:?} is neither a file nor a directory")))
        }
    }
}

async fn directory(there: &There<'_>, from: &str, into: LocalDir, progress: &mut Progress) -> Result<()> {
    let mut left = vec![(from.trim_end_matches('/').to_owned(), into)];
    while let Some((path, dir)) = left.pop() {
        let shown = if path.is_empty() { "/".to_owned() } else { path };
        let params =
            ListParams { session_id: there.session.to_owned(), path: shown.clone(), ..ListParams::default() };
        let listed = there.client.call::<methods::FileList>(&params).await?;
        if listed.truncated {
            return Err(Failure::usage(format!("{shown:?} has too many entries to be copied")));
        }
        for entry in listed.entries {
            let name = entry.path.rsplit('/').next().unwrap_or_default().to_owned();
            let failed = |error| Failure::system(&name, error);
            match entry.kind {
                FileKind::Directory => left.push((entry.path.clone(), dir.enter(&name).map_err(failed)?)),
                FileKind::File => file(there, &entry, &entry.path, &dir, &name, progress).await?,
                FileKind::Symlink | FileKind::Other => {
                    output::note_to_person(&format!("{} is left out: it is not a file", entry.path));
                }
            }
        }
    }
    Ok(())
}

async fn file(
    there: &There<'_>,
    entry: &FileEntry,
    from: &str,
    dir: &LocalDir,
    name: &str,
    progress: &mut Progress,
) -> Result<()> {
    let identity = format!("{} {from} {} {}", there.session, entry.bytes, entry.modified_at);
    let part = part_name(name, &identity);
    let target = dir.append_to(&part, entry.mode.0 & 0o777).map_err(|error| Failure::system(name, error))?;
    let copied = match fetch(there, entry, from, target, name, progress).await {
        Ok(()) => dir.rename(&part, name).map_err(|error| Failure::system(name, error)),
        Err(failure) => Err(failure),
    };
    match &copied {
        Ok(()) => progress.file_done(),
        // It would not be continued. What cannot be removed is no worse than the failure that is told.
        Err(failure) if !failure.is_temporary() => drop(dir.remove(&part)),
        Err(_) => {}
    }
    copied
}

/// Adds to the part what it lacks.
async fn fetch(
    there: &There<'_>,
    entry: &FileEntry,
    from: &str,
    mut target: File,
    name: &str,
    progress: &mut Progress,
) -> Result<()> {
    let failed = |error| Failure::system(name, error);
    let mut offset = target.metadata().map_err(failed)?.len();
    loop {
        let params = ReadParams {
            session_id: there.session.to_owned(),
            path: from.to_owned(),
            offset,
            limit: Some(PART),
            encoding: Encoding::Base64,
        };
        let read = there.client.call::<methods::FileRead>(&params).await?;
        let bytes = STANDARD
            .decode(read.base64.unwrap_or_default())
            .map_err(|error| Failure::system("reading what the daemon sent", error))?;
        if read.offset != offset {
            return Err(Failure::usage(format!("{from:?} has become shorter while it was copied")));
        }
        target.write_all(&bytes).map_err(failed)?;
        offset = read.next_offset;
        progress.at(name, bytes.len() as u64, offset, read.total_bytes);
        if bytes.is_empty() || offset >= read.total_bytes {
            break;
        }
    }
    let after = there.target(from).await?;
    let changed = after.is_some_and(|after| after.bytes != offset || after.modified_at != entry.modified_at);
    // Files of the kernel say that they are empty.
    if changed && entry.bytes > 0 {
        return Err(Failure::usage(format!("{from:?} has changed while it was copied")).hint("copy it again"));
    }
    target.set_permissions(Permissions::from_mode(entry.mode.0 & 0o777)).map_err(failed)
}
