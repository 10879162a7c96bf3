//! What is asked about files, done in a process of its own.

use std::fs::DirBuilder;
use std::io;

use rustix::fs::{AtFlags, FileType, OFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::file::{
    FileDone, FileOp, MadeDir, MakeDirParams, MoveParams, Moved, RemoveParams, Removed,
};

use super::path::{Located, absolute};
use super::{edit, fault, list, read, write};

/// What was done, and the bytes that were read. `dir` is what relative paths are relative to.
pub(crate) fn perform(dir: &str, op: &FileOp) -> Result<(FileDone, Vec<u8>), Fault> {
    let done = match op {
        FileOp::Read(params) => return read::perform(dir, params),
        FileOp::Write(params, content) => write::perform(dir, params, content),
        FileOp::Edit(params) => edit::perform(dir, params),
        FileOp::List(params) => list::list(dir, params),
        FileOp::Stat(params) => list::stat(dir, params),
        FileOp::Move(params) => rename(dir, params),
        FileOp::Remove(params) => remove(dir, params),
        FileOp::MakeDir(params) => make_dir(dir, params),
    }?;
    Ok((done, Vec::new()))
}

fn rename(dir: &str, params: &MoveParams) -> Result<FileDone, Fault> {
    let MoveParams { from, to, overwrite, .. } = params;
    let source = Located::entry(&absolute(dir, from)?).map_err(|error| fault::of(from, &error))?;
    let target = Located::entry(&absolute(dir, to)?).map_err(|error| fault::of(to, &error))?;
    if source.stat().map_err(|error| fault::of(from, &error))?.is_none() {
        return Err(fault::new(Code::FileNotFound, from, "does not exist"));
    }
    let flags = if *overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match renameat_with(&source.dir, &source.name, &target.dir, &target.name, flags) {
        Ok(()) => {}
        Err(Errno::XDEV) => across_devices(&source, &target, *overwrite).map_err(|error| {
            fault::of(if error.kind() == io::ErrorKind::AlreadyExists { to } else { from }, &error)
        })?,
        Err(error @ (Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR)) if !overwrite => {
            return Err(fault::of(to, &error.into()));
        }
        Err(error) => return Err(fault::of(to, &error.into())),
    }
    Ok(FileDone::Moved(Moved { from: from.clone(), to: to.clone() }))
}

/// The kernel moves nothing from one file system to another: a file is copied, then removed.
fn across_devices(source: &Located, target: &Located, overwrite: bool) -> io::Result<()> {
    if !overwrite && target.stat()?.is_some() {
        return Err(Errno::EXIST.into());
    }
    let (mut from, stat) = source.open(OFlags::RDONLY)?;
    let fresh = target.fresh_name()?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = rustix::fs::Mode::from_raw_mode(stat.st_mode & 0o7777);
    let mut copy = std::fs::File::from(rustix::fs::openat(&target.dir, &fresh, flags, mode)?);
    let done = (|| {
        io::copy(&mut from, &mut copy)?;
        rustix::fs::fchmod(&copy, mode)?;
        let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(&target.dir, &fresh, &target.dir, &target.name, flags)?;
        Ok(())
    })();
    match done {
        Ok(()) => Ok(unlinkat(&source.dir, &source.name, AtFlags::empty())?),
        Err(error) => {
            // What failed is told; that the other name may stay then is the lesser evil.
            unlinkat(&target.dir, &fresh, AtFlags::empty()).ok();
            Err(error)
        }
    }
}

fn remove(dir: &str, params: &RemoveParams) -> Result<FileDone, Fault> {
    let RemoveParams { path, recursive, .. } = params;
    let failed = |error: io::Error| fault::of(path, &error);
    // `Path` drops a last `.`, and would name the directory itself.
    let last = path.trim_end_matches('/').rsplit('/').next();
    if matches!(last, Some("." | ".." | "")) {
        return Err(fault::new(Code::InvalidParams, path, "cannot be removed by that name"));
    }
    let full = absolute(dir, path)?;
    let at = Located::entry(&full).map_err(failed)?;
    let Some(stat) = at.stat().map_err(failed)? else {
        return Err(fault::new(Code::FileNotFound, path, "does not exist"));
    };
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    match (is_dir, recursive) {
        (false, _) => unlinkat(&at.dir, &at.name, AtFlags::empty()).map_err(|error| failed(error.into()))?,
        (true, true) => remove_tree(&at).map_err(failed)?,
        (true, false) => match unlinkat(&at.dir, &at.name, AtFlags::REMOVEDIR) {
            Ok(()) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let what =
                    "is a directory that is not empty; set `recursive` to remove it with all that is in it";
                return Err(fault::new(Code::InvalidParams, path, what));
            }
            Err(error) => return Err(failed(error.into())),
        },
    }
    Ok(FileDone::Removed(Removed { path: path.clone() }))
}

/// Every directory is opened without following links, and emptied through that descriptor.
fn remove_tree(at: &Located) -> io::Result<()> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let dir = rustix::fs::openat(&at.dir, &at.name, flags, rustix::fs::Mode::empty())?;
    for entry in rustix::fs::Dir::read_from(&dir)? {
        let entry = entry?;
        let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
        if name == "." || name == ".." {
            continue;
        }
        match unlinkat(&dir, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => {
                remove_tree(&Located { dir: dir.try_clone()?, name })?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(unlinkat(&at.dir, &at.name, AtFlags::REMOVEDIR)?)
}

fn make_dir(dir: &str, params: &MakeDirParams) -> Result<FileDone, Fault> {
    let path = absolute(dir, &params.path)?;
    DirBuilder::new()
        .recursive(params.parents)
        .create(&path)
        .map_err(|error| fault::of_parent(&params.path, &error, "parents"))?;
    Ok(FileDone::MadeDir(MadeDir { path: params.path.clone() }))
}
