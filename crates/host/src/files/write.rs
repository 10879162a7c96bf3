//! `file.write`: the old file or the new one, never something between.
//!
//! The new content is written beside the file under another name, then takes its place in
//! one step. If anything fails, the other name is removed.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, openat, renameat_with, unlinkat,
};
use sha2::{Digest as _, Sha256};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{FileDone, WriteParams, WriteReply};

use super::fault;
use super::path::{Located, absolute};
use super::read::hex;

/// Files up to this size are hashed after something was added to them.
const MAX_HASHED: u64 = 16 * 1024 * 1024;
const COPY_SIZE: usize = 128 * 1024;

pub(super) fn perform(dir: &str, params: &WriteParams, content: &[u8]) -> Result<FileDone, Fault> {
    let path = absolute(dir, &params.path)?;
    let failed = |error: io::Error| fault::of(&params.path, &error);
    if params.make_parents
        && let Some(parent) = path.parent()
    {
        DirBuilder::new().recursive(true).create(parent).map_err(failed)?;
    }
    let at = Located::target(&path).map_err(|error| match params.make_parents {
        false => fault::of_parent(&params.path, &error, "make_parents"),
        true => failed(error),
    })?;
    if let Some(expected) = &params.if_sha256 {
        check_content(&at, &params.path, expected)?;
    }
    let reply = match params.offset {
        Some(_) if params.append => {
            return Err(Fault::invalid("param `offset`: not together with `append`"));
        }
        Some(offset) => return insert(&at, params, offset, content).map(FileDone::Written),
        None if params.append => append(&at, params, content),
        None => replace(&at, params.mode, content),
    };
    reply.map(FileDone::Written).map_err(failed)
}

/// Refuses unless the file has the content that the caller has seen.
fn check_content(at: &Located, path: &str, expected: &str) -> Result<(), Fault> {
    let found = match at.open(OFlags::RDONLY) {
        Ok((file, _)) => Some(hash(file).map_err(|error| fault::of(path, &error))?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(fault::of(path, &error)),
    };
    if found.as_deref().is_some_and(|found| found.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let what = match &found {
        Some(found) => format!("has changed: its content has the SHA-256 {found}; read it again"),
        None => "does not exist any more, so it does not have the content that if_sha256 names".to_owned(),
    };
    Err(fault::new(Code::FileConflict, path, &what)
        .with_details(serde_json::json!({ "path": path, "sha256": found })))
}

pub(super) fn hash(mut file: File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; COPY_SIZE];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

fn append(at: &Located, params: &WriteParams, content: &[u8]) -> io::Result<WriteReply> {
    let flags = OFlags::RDWR | OFlags::APPEND;
    let (mut file, _) = match at.open(flags) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Somebody may make it at the same moment: then it is added to all the same.
            drop(create(at, &at.name, params.mode, false)?);
            at.open(flags)?
        }
        opened => opened?,
    };
    file.write_all(content)?;
    if let Some(mode) = params.mode {
        fchmod(&file, Mode::from_raw_mode(mode.0))?;
    }
    let total = file.metadata()?.len();
    let sha256 = if total <= MAX_HASHED {
        io::Seek::rewind(&mut file)?;
        Some(hash(file)?)
    } else {
        None
    };
    Ok(WriteReply { bytes: content.len() as u64, sha256, total_bytes: total })
}

/// Writes a part of a file. A repeated request does no harm, also while the first is still under way.
fn insert(at: &Located, params: &WriteParams, offset: u64, content: &[u8]) -> Result<WriteReply, Fault> {
    let failed = |error: io::Error| fault::of(&params.path, &error);
    let (file, stat) = at.open(OFlags::WRONLY).map_err(failed)?;
    let size = stat.st_size as u64;
    if offset > size {
        let what = format!("has only {size} bytes, so nothing can be written at {offset}");
        return Err(fault::new(Code::FileConflict, &params.path, &what)
            .with_details(serde_json::json!({ "path": params.path, "total_bytes": size })));
    }
    file.write_all_at(content, offset).map_err(failed)?;
    if let Some(mode) = params.mode {
        fchmod(&file, Mode::from_raw_mode(mode.0)).map_err(|error| failed(error.into()))?;
    }
    let total_bytes = file.metadata().map_err(failed)?.len();
    Ok(WriteReply { bytes: content.len() as u64, sha256: None, total_bytes })
}

/// Puts a file with this content where one may be.
pub(super) fn replace(
    at: &Located,
    mode: Option<trl_protocol::file::Mode>,
    content: &[u8],
) -> io::Result<WriteReply> {
    let before = match at.open(OFlags::PATH) {
        Ok((_, stat)) => Some(stat),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // A file that may not be written is not replaced either.
    if before.is_some() {
        at.open(OFlags::WRONLY)?;
    }
    let fresh = at.fresh_name()?;
    let mut file = create(at, &fresh, mode, true)?;
    let written = (|| {
        if let Some(before) = &before {
            // Only root can give a file away; others keep their own.
            fchown(&file, Some(Uid::from_raw(before.st_uid)), Some(Gid::from_raw(before.st_gid))).ok();
            if mode.is_none() {
                fchmod(&file, Mode::from_raw_mode(before.st_mode & 0o7777))?;
            }
        }
        file.write_all(content)?;
        renameat_with(&at.dir, &fresh, &at.dir, &at.name, RenameFlags::empty())?;
        Ok(())
    })();
    if let Err(error) = written {
        // What failed is told; that the other name may stay then is the lesser evil.
        unlinkat(&at.dir, &fresh, AtFlags::empty()).ok();
        return Err(error);
    }
    let bytes = content.len() as u64;
    Ok(WriteReply { bytes, sha256: Some(hex(&Sha256::digest(content))), total_bytes: bytes })
}

fn create(
    at: &Located,
    name: &std::ffi::OsStr,
    mode: Option<trl_protocol::file::Mode>,
    exclusive: bool,
) -> io::Result<File> {
    let mut flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    flags.set(OFlags::EXCL, exclusive);
    let asked = Mode::from_raw_mode(mode.map_or(0o666, |mode| mode.0));
    let file = openat(&at.dir, name, flags, asked)?;
    if mode.is_some() {
        // Whatever the umask takes away.
        fchmod(file.as_fd(), asked)?;
    }
    Ok(File::from(file))
}
