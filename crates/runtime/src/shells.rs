//! Which shell a session gets: the ones we speak, where they are, what was asked for.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use trl_protocol::Fault;
use trl_protocol::system::ShellFound;
use trl_protocol::wire::Dialect;

const SPOKEN: [&str; 4] = ["bash", "zsh", "sh", "dash"];
/// Looked into after `PATH`, so that a daemon with a poor environment still finds them.
const USUAL: [&str; 2] = ["/bin", "/usr/bin"];

/// A shell that is there and that we speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shell {
    /// As asked for, else the plain name.
    pub(crate) told: String,
    pub(crate) path: PathBuf,
    pub(crate) dialect: Dialect,
}

/// What the daemon's environment says about shells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) path: &'a str,
    /// `$SHELL`.
    pub(crate) preferred: Option<&'a str>,
}

/// The shell that was asked for, or the default.
pub(crate) fn resolve(asked: Option<&str>, around: Surroundings<'_>) -> Result<Shell, Fault> {
    if let Some(asked) = asked {
        return find(asked, around).ok_or_else(|| not_there(asked, around));
    }
    let preferred = around
        .preferred
        .and_then(|shell| find(shell, around))
        .map(|shell| Shell { told: file_name(&shell.path).unwrap_or(&shell.told).to_owned(), ..shell });
    preferred
        .or_else(|| find("bash", around))
        .or_else(|| find("sh", around))
        .ok_or_else(|| not_there("bash", around))
}

/// Every spoken shell that is installed, in order of preference.
pub(crate) fn installed(around: Surroundings<'_>) -> Vec<ShellFound> {
    let found = |name: &&str| {
        let shell = find(name, around)?;
        Some(ShellFound { name: (*name).to_owned(), path: shell.path.display().to_string() })
    };
    SPOKEN.iter().filter_map(found).collect()
}

fn find(asked: &str, around: Surroundings<'_>) -> Option<Shell> {
    let name = file_name(Path::new(asked)).filter(|name| SPOKEN.contains(name))?;
    let path = if asked.contains('/') {
        Some(PathBuf::from(asked)).filter(|path| path.is_absolute() && is_program(path))?
    } else {
        let listed = around.path.split(':').filter(|dir| dir.starts_with('/'));
        listed.chain(USUAL).map(|dir| Path::new(dir).join(name)).find(|path| is_program(path))?
    };
    let dialect = dialect(name, &path);
    Some(Shell { told: asked.to_owned(), path, dialect })
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

fn not_there(asked: &str, around: Surroundings<'_>) -> Fault {
    let here: Vec<String> =
        installed(around).into_iter().map(|s| format!("{} ({})", s.name, s.path)).collect();
    let here = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
    let shown: String = asked.chars().take(200).collect();
    let spoken = file_name(Path::new(asked)).is_some_and(|name| SPOKEN.contains(&name));
    let problem = match (spoken, asked.contains('/')) {
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
        let around = Surroundings { path, preferred: None };

        let shell = resolve(Some("bash"), around).unwrap();
        assert_eq!((shell.told.as_str(), &shell.path, shell.dialect), ("bash", &bash, Dialect::Bash));
        assert_eq!(resolve(None, around).unwrap().told, "bash");
        let asked = bash.to_str().unwrap();
        assert_eq!(resolve(Some(asked), around).unwrap().told, asked);
        assert_eq!(resolve(Some("sh"), around).unwrap().dialect, Dialect::Bash);

        let by_preference =
            |preferred| resolve(None, Surroundings { path, preferred: Some(preferred) }).unwrap();
        assert_eq!(by_preference("/usr/bin/fish").told, "bash");
        assert_eq!(by_preference(asked).told, "bash");
        assert_eq!(by_preference("").told, "bash");
    }

    #[test]
    fn what_cannot_be_had_is_named_with_what_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        program(dir.path(), "bash");
        let around = Surroundings { path, preferred: None };
        for (asked, problem) in [
            ("fish", "no shell that sessions can speak"),
            ("", "no shell that sessions can speak"),
            ("/nowhere/zsh", "no program"),
            ("bin/bash", "no program"),
            ("..", "no shell"),
        ] {
            let fault = resolve(Some(asked), around).unwrap_err();
            assert_eq!(fault.code, trl_protocol::Code::InvalidParams);
            assert!(fault.message.contains(problem) && fault.message.contains("bash ("), "{}", fault.message);
        }
    }
}
