//! What a process may reach: a policy, the plan that follows from it, and entering it.
//!
//! The policy is data of the protocol. [`plan`] turns it into mounts and rules without looking at
//! anything but what it is given. [`linux`] carries a plan out, and is the only part that makes system calls.
//!
//! Two kinds of guests are confined: the processes of a session ([`linux::jail`]), and the command of an
//! auto-responder, which is one small task ([`become_command`]). The latter can read the system's programs and
//! libraries, a few files of `/etc` and the files that its own command line names; it can write in one
//! directory, which is empty and goes away afterwards, and in a private `/tmp`; it reaches no socket, no other
//! process and, unless its owner said so, no network. In particular it can reach neither the daemon nor the
//! keys and the mail that lie beside it.

pub mod hosts;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod plan;
pub mod report;

use std::path::PathBuf;

use trl_protocol::isolation::{Enforced, Missing, Profile};

/// What an auto-responder's command may be and do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// The one directory it may write in.
    pub dir: PathBuf,
    pub network: bool,
    pub command: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("there is no command")]
    NoCommand,
    #[error("the command cannot be confined: {0}")]
    Unavailable(String),
    #[error("the command could not be started: {0}")]
    Start(std::io::Error),
}

#[cfg(not(target_os = "linux"))]
const LINUX_ONLY: &str = "commands can be confined on Linux only (namespaces, Landlock and seccomp)";

/// Whether this system can confine a command; if not, why.
#[cfg(target_os = "linux")]
pub fn check() -> Result<(), String> {
    linux::check().map_err(|step| format!("{step}; it needs {}", step.remedy()))
}

#[cfg(not(target_os = "linux"))]
pub fn check() -> Result<(), String> {
    Err(LINUX_ONLY.to_owned())
}

/// The profiles that this machine can enforce in full, and what keeps it from the others.
#[cfg(target_os = "linux")]
pub fn support() -> (Vec<Profile>, Vec<Missing>) {
    let failed = linux::check().and_then(|()| linux::probe::namespaces()).err();
    let missing = failed.map(|step| Missing {
        what: "profiles `workspace` and `strict`".to_owned(),
        why: step.to_string(),
        remedy: step.remedy().to_owned(),
    });
    match missing {
        None => (vec![Profile::None, Profile::Workspace, Profile::Strict], Vec::new()),
        Some(missing) => (vec![Profile::None], vec![missing]),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn support() -> (Vec<Profile>, Vec<Missing>) {
    let what = "profiles `workspace` and `strict`".to_owned();
    (vec![Profile::None], vec![Missing { what, why: LINUX_ONLY.to_owned(), remedy: String::new() }])
}

/// Which limits hold for everything that a session starts together, by what, and what keeps it from the others.
/// Found out by trying, once.
#[cfg(target_os = "linux")]
pub fn limits() -> &'static (Vec<Enforced>, Vec<Missing>) {
    use linux::cgroups::{Groups, Wanted};
    static FOUND: std::sync::OnceLock<(Vec<Enforced>, Vec<Missing>)> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| {
        let mut groups = Groups::make();
        groups.bound(Wanted { memory: Some(64 << 20), pids: Some(64), cpu: Some(1.0) });
        let enforced = |(what, by): &(&str, String)| Enforced { what: (*what).to_owned(), by: by.clone() };
        let missing = |(what, why): &(&str, String)| Missing {
            what: format!("limit {what}"),
            why: why.clone(),
            remedy: linux::Step::limits_remedy().to_owned(),
        };
        (groups.enforced.iter().map(enforced).collect(), groups.missing.iter().map(missing).collect())
    })
}

#[cfg(not(target_os = "linux"))]
pub fn limits() -> &'static (Vec<Enforced>, Vec<Missing>) {
    static NONE: (Vec<Enforced>, Vec<Missing>) = (Vec::new(), Vec::new());
    &NONE
}

/// The layers that confine an auto-responder's command here, by name.
#[cfg(target_os = "linux")]
pub fn layers() -> &'static str {
    plan::Guest::layers(linux::probe::namespaces().is_ok())
}

#[cfg(not(target_os = "linux"))]
pub fn layers() -> &'static str {
    "none"
}

/// Gives everything else up and becomes the command, or what waits for it. Returns only if that failed.
pub fn become_command(confinement: &Confinement) -> ConfineError {
    if confinement.command.is_empty() {
        return ConfineError::NoCommand;
    }
    #[cfg(target_os = "linux")]
    let Err(error) = linux::run_errand(confinement);
    #[cfg(not(target_os = "linux"))]
    let error = ConfineError::Unavailable(LINUX_ONLY.to_owned());
    error
}

impl Confinement {
    /// Files that the command line itself names: whoever wrote it wants them read. Not what holds the
    /// directory of the command, which would be the daemon's state or the whole system.
    pub fn named(&self) -> Vec<PathBuf> {
        let is_named = |path: &PathBuf| path.is_absolute() && path.exists() && !self.dir.starts_with(path);
        self.command.iter().map(PathBuf::from).filter(is_named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_that_exist_are_named() {
        let command =
            ["python3", "/etc/passwd", "etc/passwd", "/no/such/file", "-c"].map(str::to_owned).to_vec();
        let confinement = Confinement { dir: PathBuf::new(), network: false, command };
        assert_eq!(confinement.named(), [PathBuf::from("/etc/passwd")]);
    }
}
