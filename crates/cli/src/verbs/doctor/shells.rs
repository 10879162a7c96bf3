//! Which shells are there for sessions to run?

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Check;

const SPOKEN: &[&str] = &["bash", "zsh", "sh", "dash"];

pub(super) fn check() -> Vec<Check> {
    let found: Vec<(&str, PathBuf)> = SPOKEN.iter().filter_map(|name| Some((*name, find(name)?))).collect();
    let list = found.iter().map(|(name, path)| describe(name, path)).collect::<Vec<_>>().join(", ");
    let install = "Install bash, e.g. `apt-get install bash`.";
    let shells = if found.is_empty() {
        Check::fail("shells", "none found in PATH", "No session can start.", install)
    } else if !found.iter().any(|(name, _)| *name == "bash") {
        Check::warn("shells", list, "bash is missing: sessions run in what is there.", install)
    } else {
        Check::ok("shells", list)
    };
    [Some(shells), preferred()].into_iter().flatten().collect()
}

fn preferred() -> Option<Check> {
    let shell = std::env::var("SHELL").ok().filter(|shell| !shell.is_empty())?;
    let name = shell.rsplit('/').next().unwrap_or(&shell);
    if SPOKEN.contains(&name) {
        return Some(Check::ok("$SHELL", shell));
    }
    Some(Check::warn(
        "$SHELL",
        shell,
        "trl does not speak this shell: sessions run in bash, or sh.",
        "Name one with --shell to choose.",
    ))
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let runnable = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(runnable)
}

fn describe(name: &str, path: &Path) -> String {
    let version = match name {
        "bash" | "zsh" => version(path),
        // These have no way to ask; what they stand for says more.
        _ => std::fs::canonicalize(path)
            .ok()
            .filter(|real| real.file_name() != path.file_name())
            .map(|real| format!("is {}", real.display())),
    };
    match version {
        Some(version) => format!("{name} {version} ({})", path.display()),
        None => format!("{name} ({})", path.display()),
    }
}

/// `GNU bash, version 5.2.15(1)-release …`, `zsh 5.9 (…)`: the first word that begins with a digit.
fn version(path: &Path) -> Option<String> {
    let asked =
        Command::new(path).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    let number = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(number.split('(').next().unwrap_or(number).to_owned())
}
