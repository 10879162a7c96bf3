//! What went wrong with a file, as a code that programs act on.

use std::io;

use rustix::io::Errno;
use trl_protocol::fault::{Code, Fault};

/// The fault for an error of the system about this path.
pub(super) fn of(path: &str, error: &io::Error) -> Fault {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let (code, what) = match errno {
        Some(Errno::NOENT) => (Code::FileNotFound, "does not exist"),
        Some(Errno::NOTDIR) => (Code::FileNotFound, "leads through something that is not a directory"),
        Some(Errno::EXIST) => (Code::FileExists, "exists already"),
        Some(Errno::NOTEMPTY) => (Code::FileExists, "is a directory that is not empty"),
        Some(Errno::ACCESS | Errno::PERM) => (Code::FileDenied, "is not accessible to this session"),
        Some(Errno::ROFS) => (Code::FileDenied, "is on a file system that is read-only"),
        Some(Errno::TXTBSY) => (Code::FileDenied, "is a program that runs"),
        Some(Errno::ISDIR) => (Code::InvalidParams, "is a directory"),
        Some(Errno::LOOP) => (Code::InvalidParams, "leads through too many symbolic links"),
        Some(Errno::NAMETOOLONG) => (Code::InvalidParams, "is too long a name"),
        Some(Errno::INVAL) => (Code::InvalidParams, "cannot be used like this"),
        Some(Errno::NOSPC | Errno::DQUOT) => {
            (Code::ResourcePressure, "cannot be written: there is no space left; free some and try again")
        }
        Some(Errno::FBIG) => (Code::ResourcePressure, "would become larger than files may be here"),
        _ => return with_path(Fault::refused_by_system(format_args!("{path:?}"), error), path),
    };
    new(code, path, what)
}

/// The same for a path whose last name need not exist: what is missing is the directory that it is to be in.
pub(super) fn of_parent(path: &str, error: &io::Error, param: &str) -> Fault {
    if error.kind() != io::ErrorKind::NotFound {
        return of(path, error);
    }
    let what = format!("cannot be made: its parent directory does not exist; set `{param}` to make that too");
    new(Code::FileNotFound, path, &what)
}

/// A fault about a path, in a sentence that begins with it.
pub(super) fn new(code: Code, path: &str, what: &str) -> Fault {
    let shown: String = path.chars().take(300).collect();
    with_path(Fault::new(code, format!("{shown:?} {what}")), path)
}

fn with_path(fault: Fault, path: &str) -> Fault {
    fault.with_details(serde_json::json!({ "path": path }))
}
