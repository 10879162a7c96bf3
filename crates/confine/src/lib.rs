//! Keeping an auto-responder's command to its one power: to answer one message.
//!
//! The daemon starts a process of ours, which gives up everything but what is listed here and
//! then becomes the command, so that nothing of it ever runs unconfined. The command can read
//! the system's programs and libraries, and the files that its own command line names; it can
//! write in one directory, which is empty and goes away afterwards; it reaches no socket, no
//! other process and, unless its owner said so, no network. In particular it can reach neither
//! the daemon nor the keys and the mail that lie beside it.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

/// Told by `mail.autorespond`.
pub const NAME: &str = system::NAME;

/// What a command may be and do.
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

/// Whether this system can confine a command; if not, why.
pub fn check() -> Result<(), String> {
    system::check()
}

/// Gives everything else up and becomes the command. Returns only if that failed.
pub fn become_command(confinement: &Confinement) -> ConfineError {
    let Some((program, arguments)) = confinement.command.split_first() else {
        return ConfineError::NoCommand;
    };
    if let Err(why) = system::enter(&confinement.dir, &named(&confinement.command), confinement.network) {
        return ConfineError::Unavailable(why);
    }
    ConfineError::Start(Command::new(program).args(arguments).exec())
}

/// Files that the command line itself names: whoever wrote it wants them read.
fn named(command: &[String]) -> Vec<&Path> {
    command.iter().map(Path::new).filter(|path| path.is_absolute() && path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_that_exist_are_named() {
        let words = ["python3", "/etc/passwd", "etc/passwd", "/no/such/file", "-c"].map(str::to_owned);
        assert_eq!(named(&words), [Path::new("/etc/passwd")]);
    }
}
