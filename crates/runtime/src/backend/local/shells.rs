//! Finds the shell that a session gets among those that are installed and supported.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use trl_protocol::Fault;
use trl_protocol::system::ShellFound;
use trl_protocol::wire::Dialect;

const SUPPORTED: [&str; 4] = ["bash", "zsh", "sh", "dash"];
/// Looked into after `PATH`, so that a daemon with a poor environment still finds them.
const USUAL_DIRS: [&str; 2] = ["/bin", "/usr/bin"];

/// A supported shell that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundShell {
    /// As the request named it, else the plain name.
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) dialect: Dialect,
}

/// Where shells are looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShellSearch<'a> {
    pub(super) path: &'a str,
    /// `$SHELL`.
    pub(super) preferred: Option<&'a str>,
}

/// The shell that was asked for, or the default.
pub(super) fn resolve(asked: Option<&str>, search: ShellSearch<'_>) -> Result<FoundShell, Fault> {
    if let Some(asked) = asked {
        return find(asked, search).ok_or_else(|| unavailable(asked, search));
    }
    let preferred = search
        .preferred
        .and_then(|shell| find(shell, search))
        .map(|shell| FoundShell { name: file_name(&shell.path).unwrap_or(&shell.name).to_owned(), ..shell });
    preferred
        .or_else(|| find("bash", search))
        .or_else(|| find("sh", search))
        .ok_or_else(|| unavailable("bash", search))
}

/// Every supported shell that is installed, in order of preference.
pub(super) fn installed(search: ShellSearch<'_>) -> Vec<ShellFound> {
    let found = |name: &&str| {
        let shell = find(name, search)?;
        Some(ShellFound { name: (*name).to_owned(), path: shell.path.display().to_string() })
    };
    SUPPORTED.iter().filter_map(found).collect()
}

fn find(asked: &str, search: ShellSearch<'_>) -> Option<FoundShell> {
    let name = file_name(Path::new(asked)).filter(|name| SUPPORTED.contains(name))?;
    let path = if asked.contains('/') {
        Some(PathBuf::from(asked)).filter(|path| path.is_absolute() && is_program(path))?
    } else {
        let listed = search.path.split(':').filter(|dir| dir.starts_with('/'));
        listed.chain(USUAL_DIRS).map(|dir| Path::new(dir).join(name)).find(|path| is_program(path))?
    };
    let dialect = dialect(name, &path);
    Some(FoundShell { name: asked.to_owned(), path, dialect })
}

/// `sh` is often another shell under that name, and then has that one's hooks: bash and
/// zsh called `sh` are driven as what they are, so that interrupts behave the same.
fn dialect(name: &str, path: &Path) -> Dialect {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match (name, file_name(&real)) {
        ("bash", _) | ("sh", Some("bash")) => Dialect::Bash,
        ("zsh", _) | ("sh", Some("zsh")) => Dialect::Zsh,
        _ => Dialect::Sh,
    }
}

fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn unavailable(asked: &str, search: ShellSearch<'_>) -> Fault {
    let here: Vec<String> =
        installed(search).into_iter().map(|s| format!("{} ({})", s.name, s.path)).collect();
    let here = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
    let shown: String = asked.chars().take(200).collect();
    let supported = file_name(Path::new(asked)).is_some_and(|name| SUPPORTED.contains(&name));
    let problem = match (supported, asked.contains('/')) {
        (true, true) => "is no program with an absolute path here",
        (true, false) => "is not installed",
        (false, _) => "is no shell that sessions can speak (bash, zsh, sh, dash)",
    };
    Fault::invalid(format!("param `shell`: {shown:?} {problem}; installed: {here}"))
        .with_details(serde_json::json!({ "field": "shell" }))
}

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
        let search = ShellSearch { path, preferred: None };

        let shell = resolve(Some("bash"), search).unwrap();
        assert_eq!((shell.name.as_str(), &shell.path, shell.dialect), ("bash", &bash, Dialect::Bash));
        assert_eq!(resolve(None, search).unwrap().name, "bash");
        let asked = bash.to_str().unwrap();
        assert_eq!(resolve(Some(asked), search).unwrap().name, asked);
        assert_eq!(resolve(Some("sh"), search).unwrap().dialect, Dialect::Bash);

        let by_preference =
            |preferred| resolve(None, ShellSearch { path, preferred: Some(preferred) }).unwrap();
        assert_eq!(by_preference("/usr/bin/fish").name, "bash");
        assert_eq!(by_preference(asked).name, "bash");
        assert_eq!(by_preference("").name, "bash");
    }

    #[test]
    fn what_cannot_be_had_is_named_with_what_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        program(dir.path(), "bash");
        let search = ShellSearch { path, preferred: None };
        for (asked, problem) in [
            ("fish", "no shell that sessions can speak"),
            ("", "no shell that sessions can speak"),
            ("/nowhere/zsh", "no program"),
            ("bin/bash", "no program"),
            ("..", "no shell"),
        ] {
            let fault = resolve(Some(asked), search).unwrap_err();
            assert_eq!(fault.code, trl_protocol::Code::InvalidParams);
            assert!(fault.message.contains(problem) && fault.message.contains("bash ("), "{}", fault.message);
        }
    }
}
