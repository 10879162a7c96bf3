//! Finds the shells that are installed and that sessions can use.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};

const SUPPORTED: [&str; 4] = ["bash", "zsh", "sh", "dash"];
/// Looked into after `PATH`, so that a process with a poor environment still finds them.
const USUAL_DIRS: [&str; 2] = ["/bin", "/usr/bin"];

/// How a shell is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bash,
    Zsh,
    Sh,
}

/// A supported shell that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundShell {
    /// As it was asked for, else the plain name.
    pub name: String,
    pub path: PathBuf,
    pub kind: Kind,
}

/// Where shells are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// As in `$PATH`.
    pub path: &'a str,
    /// As in `$SHELL`.
    pub preferred: Option<&'a str>,
}

/// A shell that cannot be had, with those that can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    asked: String,
    installed: Vec<FoundShell>,
}

/// The shell that was asked for, or the default.
pub fn resolve(asked: Option<&str>, search: Search<'_>) -> Result<FoundShell, Unavailable> {
    let unavailable = |asked: &str| Unavailable { asked: asked.to_owned(), installed: installed(search) };
    if let Some(asked) = asked {
        return find(asked, search).ok_or_else(|| unavailable(asked));
    }
    let preferred = search
        .preferred
        .and_then(|shell| find(shell, search))
        .map(|shell| FoundShell { name: file_name(&shell.path).unwrap_or(&shell.name).to_owned(), ..shell });
    preferred
        .or_else(|| find("bash", search))
        .or_else(|| find("sh", search))
        .ok_or_else(|| unavailable("bash"))
}

/// Every supported shell that is installed, in order of preference.
pub fn installed(search: Search<'_>) -> Vec<FoundShell> {
    SUPPORTED.iter().filter_map(|name| find(name, search)).collect()
}

fn find(asked: &str, search: Search<'_>) -> Option<FoundShell> {
    let name = file_name(Path::new(asked)).filter(|name| SUPPORTED.contains(name))?;
    let path = if asked.contains('/') {
        Some(PathBuf::from(asked)).filter(|path| path.is_absolute() && is_program(path))?
    } else {
        let listed = search.path.split(':').filter(|dir| dir.starts_with('/'));
        listed.chain(USUAL_DIRS).map(|dir| Path::new(dir).join(name)).find(|path| is_program(path))?
    };
    let kind = kind(name, &path);
    Some(FoundShell { name: asked.to_owned(), path, kind })
}

/// `sh` is often another shell under that name, and then has that one's hooks: bash and
/// zsh called `sh` are driven as what they are, so that interrupts behave the same.
fn kind(name: &str, path: &Path) -> Kind {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match (name, file_name(&real)) {
        ("bash", _) | ("sh", Some("bash")) => Kind::Bash,
        ("zsh", _) | ("sh", Some("zsh")) => Kind::Zsh,
        _ => Kind::Sh,
    }
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The name of the program that `path` is where `/` is `root`, with links as they lead inside.
pub fn program_below(root: &str, path: &str) -> Option<String> {
    Some(file_name(&real_below(root, path)?)?.to_owned())
}

/// Whether the program at `path`, where `/` is `root`, is busybox under whatever name: a symbolic link to it, the
/// same file as the `busybox` beside it, or a copy called `sh`.
pub fn is_busybox(root: Option<&str>, path: &str) -> bool {
    let real = match root {
        Some(root) => real_below(root, path),
        None => std::fs::canonicalize(path).ok(),
    };
    let Some(real) = real else { return false };
    let file = |path: &Path| path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    let is_linked = || file(&real).is_some_and(|own| file(&real.with_file_name("busybox")) == Some(own));
    match file_name(&real) {
        Some(name) if name.starts_with("busybox") => true,
        // As a rule it is a link to a shell with a name of its own, so that few files are read.
        Some("sh") => is_linked() || has_banner(&real),
        _ => is_linked(),
    }
}

/// What busybox says of itself.
fn has_banner(program: &Path) -> bool {
    const BANNER: &[u8] = b"BusyBox v";
    const MOST_BYTES: u64 = 16 << 20;
    let mut bytes = Vec::new();
    let read = File::open(program).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.is_ok() && bytes.windows(BANNER.len()).any(|part| part == BANNER)
}

/// Where the program is on this machine.
fn real_below(root: &str, path: &str) -> Option<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let dir = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let file = rustix::fs::openat2(&dir, path, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    (is_file && stat.st_mode & 0o111 != 0).then_some(real)
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here: Vec<String> =
            self.installed.iter().map(|shell| format!("{} ({})", shell.name, shell.path.display())).collect();
        let here = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
        let shown: String = self.asked.chars().take(200).collect();
        let supported = file_name(Path::new(&self.asked)).is_some_and(|name| SUPPORTED.contains(&name));
        let problem = match (supported, self.asked.contains('/')) {
            (true, true) => "is not a program with an absolute path here",
            (true, false) => "is not installed",
            (false, _) => "is not a supported shell (bash, zsh, sh, dash)",
        };
        write!(f, "{shown:?} {problem}; installed: {here}")
    }
}

impl std::error::Error for Unavailable {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn program(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn what_is_asked_for_is_found_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let bash = program(dir.path(), "bash");
        program(dir.path(), "fish");
        fs::write(dir.path().join("zsh"), "not executable").unwrap();
        symlink(&bash, dir.path().join("sh")).unwrap();
        let search = Search { path, preferred: None };

        let shell = resolve(Some("bash"), search).unwrap();
        assert_eq!((shell.name.as_str(), &shell.path, shell.kind), ("bash", &bash, Kind::Bash));
        assert_eq!(resolve(None, search).unwrap().name, "bash");
        let asked = bash.to_str().unwrap();
        assert_eq!(resolve(Some(asked), search).unwrap().name, asked);
        assert_eq!(resolve(Some("sh"), search).unwrap().kind, Kind::Bash);

        let by_preference = |preferred| resolve(None, Search { path, preferred: Some(preferred) }).unwrap();
        assert_eq!(by_preference("/usr/bin/fish").name, "bash");
        assert_eq!(by_preference(asked).name, "bash");
        assert_eq!(by_preference("").name, "bash");
    }

    #[test]
    fn busybox_is_known_by_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let (root, bin) = (dir.path().to_str().unwrap(), dir.path().join("bin"));
        fs::create_dir(&bin).unwrap();
        let busybox = program(&bin, "busybox");
        symlink("/bin/busybox", bin.join("symbolic")).unwrap();
        symlink("busybox", bin.join("relative")).unwrap();
        fs::hard_link(&busybox, bin.join("hard")).unwrap();
        symlink("hard", bin.join("both")).unwrap();
        program(&bin, "other");
        for (name, is_it) in [
            ("busybox", true),
            ("symbolic", true),
            ("relative", true),
            ("hard", true),
            ("both", true),
            ("other", false),
            ("missing", false),
        ] {
            assert_eq!(is_busybox(Some(root), &format!("/bin/{name}")), is_it, "{name}");
            if name != "symbolic" {
                assert_eq!(is_busybox(None, bin.join(name).to_str().unwrap()), is_it, "{name}");
            }
        }
        let copy = program(&bin, "sh");
        assert!(!is_busybox(Some(root), "/bin/sh"));
        fs::write(&copy, "\0\x7fBusyBox v1.36.1 (date)\0").unwrap();
        assert!(is_busybox(Some(root), "/bin/sh") && is_busybox(None, copy.to_str().unwrap()));
        fs::remove_file(&busybox).unwrap();
        assert!(!is_busybox(Some(root), "/bin/hard") && !is_busybox(Some(root), "/bin/other"));
    }

    #[test]
    fn what_cannot_be_had_is_named_with_what_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        program(dir.path(), "bash");
        let search = Search { path, preferred: None };
        for (asked, problem) in [
            ("fish", "not a supported shell"),
            ("", "not a supported shell"),
            ("/nowhere/zsh", "not a program"),
            ("bin/bash", "not a program"),
            ("..", "not a supported shell"),
        ] {
            let message = resolve(Some(asked), search).unwrap_err().to_string();
            assert!(message.contains(problem) && message.contains("bash ("), "{message}");
        }
    }
}
