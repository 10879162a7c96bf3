//! From here to a session.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::exec::Encoding;
use trl_protocol::file::{FileKind, MakeDirParams, Mode, MoveParams, RemoveParams, WriteParams};
use trl_protocol::methods;

use super::progress::Progress;
use super::{PART, There, base_name, is_directory, not_found, part_name};
use crate::failure::{Failure, Result};
use crate::output;

/// A file that its owner may not write is not added to either: it becomes one with its last part.
const OWNER_WRITES: u32 = 0o200;

pub(super) async fn copy(
    there: &There<'_>,
    from: &str,
    to: &str,
    recursive: bool,
    progress: &mut Progress,
) -> Result<()> {
    let meta = fs::metadata(from).map_err(|error| match error.kind() {
        ErrorKind::NotFound => not_found(format!("{from}: {error}")),
        _ => Failure::system(from, error),
    })?;
    if !meta.is_dir() && !meta.is_file() {
        return Err(Failure::usage(format!("{from:?} is neither a file nor a directory")));
    }
    let into_dir = there.target(to).await?.is_some_and(|entry| entry.kind == FileKind::Directory);
    if to.ends_with('/') && !into_dir && !meta.is_dir() {
        return Err(Failure::usage(format!("{to:?} is not a directory in session {}", there.session))
            .hint("make it first, or leave the slash out to give the file this name"));
    }
    let target = match base_name(from) {
        Some(name) if into_dir => format!("{}/{name}", to.trim_end_matches('/')),
        _ => to.to_owned(),
    };
    match (meta.is_dir(), recursive) {
        (true, true) => directory(there, Path::new(from), &target, progress).await,
        (true, false) => Err(is_directory(from)),
        (false, _) => {
            check_parent(there, &target).await?;
            file(there, Path::new(from), &target, progress).await
        }
    }
}

/// The error is about the directory, not about the part of the file that would be the first thing in it.
async fn check_parent(there: &There<'_>, path: &str) -> Result<()> {
    let Some((dir, _)) = path.rsplit_once('/').filter(|(dir, _)| !dir.is_empty()) else { return Ok(()) };
    let session = there.session;
    let problem = match there.target(dir).await?.map(|entry| entry.kind) {
        Some(FileKind::Directory) => return Ok(()),
        Some(FileKind::File | FileKind::Symlink | FileKind::Other) => {
            Failure::usage(format!("{dir:?} is not a directory in session {session}"))
        }
        None => not_found(format!("{dir:?} does not exist in session {session}")),
    };
    Err(problem.hint("make it first"))
}

async fn directory(there: &There<'_>, from: &Path, to: &str, progress: &mut Progress) -> Result<()> {
    let failed = |error| Failure::system(&from.display().to_string(), error);
    let mut left = vec![(from.to_owned(), to.to_owned())];
    while let Some((dir, target)) = left.pop() {
        let params =
            MakeDirParams { session_id: there.session.to_owned(), path: target.clone(), parents: true };
        there.client.call::<methods::FileMakeDir>(&params).await?;
        for entry in fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                return Err(Failure::usage(format!(
                    "{} has a name that is not UTF-8",
                    entry.path().display()
                )));
            };
            let below = format!("{target}/{name}");
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                left.push((entry.path(), below));
            } else if kind.is_file() {
                file(there, &entry.path(), &below, progress).await?;
            } else {
                let path = entry.path();
                output::note_to_person(&format!("{} is left out: it is not a file", path.display()));
            }
        }
    }
    Ok(())
}

async fn file(there: &There<'_>, from: &Path, to: &str, progress: &mut Progress) -> Result<()> {
    let shown = from.display().to_string();
    let failed = |error| Failure::system(&shown, error);
    let source = File::open(from).map_err(failed)?;
    let meta = source.metadata().map_err(failed)?;
    let (dir, name) = to.rsplit_once('/').map_or(("", to), |(dir, name)| (dir, name));
    let identity = format!("{shown} {} {} {} {to}", meta.len(), meta.mtime(), meta.mtime_nsec());
    let slash = if to.contains('/') { "/" } else { "" };
    let part = format!("{dir}{slash}{}", part_name(name, &identity));
    let copied = transfer(there, source, &shown, to, &part, progress).await;
    if copied.as_ref().is_err_and(|failure| !failure.is_temporary()) {
        // It would not be continued. What cannot be removed was most often not made.
        let session_id = there.session.to_owned();
        let params = RemoveParams { session_id, path: part, recursive: false };
        let _ = there.client.call::<methods::FileRemove>(&params).await;
    }
    copied
}

async fn transfer(
    there: &There<'_>,
    mut source: File,
    shown: &str,
    to: &str,
    part: &str,
    progress: &mut Progress,
) -> Result<()> {
    let failed = |error| Failure::system(shown, error);
    let meta = source.metadata().map_err(failed)?;
    let whole = meta.len();
    let mut offset = there.stat(part).await?.map_or(0, |entry| entry.bytes).min(whole);
    source.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mode = meta.permissions().mode() & 0o777;
    let write = |content: String, offset, at_end| WriteParams {
        session_id: there.session.to_owned(),
        path: part.to_owned(),
        content,
        encoding: Encoding::Base64,
        // A request of an interrupted copy may still be under way: it writes the same bytes to the same place.
        offset,
        mode: Some(Mode(if at_end { mode } else { mode | OWNER_WRITES })),
        ..WriteParams::default()
    };
    if offset == 0 {
        // Files of the kernel say that they are empty.
        let mut first = Vec::new();
        if whole == 0 {
            source.by_ref().take(PART).read_to_end(&mut first).map_err(failed)?;
        }
        let request = write(STANDARD.encode(&first), None, whole == 0);
        there.client.call::<methods::FileWrite>(&request).await?;
        progress.at(shown, first.len() as u64, first.len() as u64, whole);
    }
    while offset < whole {
        let mut piece = Vec::new();
        source.by_ref().take(PART).read_to_end(&mut piece).map_err(failed)?;
        if piece.is_empty() {
            return Err(Failure::usage(format!("{shown} has become shorter while it was copied")));
        }
        let at_end = offset + piece.len() as u64 >= whole;
        let request = write(STANDARD.encode(&piece), Some(offset), at_end);
        let written = there.client.call::<methods::FileWrite>(&request).await?;
        offset += piece.len() as u64;
        if !(offset..=whole).contains(&written.total_bytes) {
            return Err(Failure::usage(format!("something else writes to {part} in the session")));
        }
        progress.at(shown, piece.len() as u64, offset, whole);
    }
    let params = MoveParams {
        session_id: there.session.to_owned(),
        from: part.to_owned(),
        to: to.to_owned(),
        overwrite: true,
    };
    there.client.call::<methods::FileMove>(&params).await?;
    progress.file_done();
    Ok(())
}
