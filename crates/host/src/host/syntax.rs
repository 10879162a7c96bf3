//! Whether a command failed because its text is no shell text.

use std::process::{Command, Stdio};

use super::Host;
use super::outcome::End;
use crate::driver::Exit;
use crate::shell::{MemFile, path_of};

/// How much of stderr is searched for a complaint of the shell's.
const TAIL: usize = 1024;

impl Host {
    /// Whether the shell complained, and the text indeed cannot be parsed.
    pub(super) fn is_syntax_error(&self, number: u64, end: &End) -> bool {
        let code = match end {
            End::Status(code) | End::Process(Exit::Code(code)) | End::Shell(Exit::Code(code)) => *code,
            End::Process(_) | End::Shell(_) | End::Unknown(_) | End::NeverRan => return false,
        };
        let Some(exec) = self.commands.get(number).filter(|_| code == 1 || code == 2) else { return false };
        let mut tail = [0; TAIL];
        let read = self.commands.tail(exec, exec.stderr(), &mut tail);
        let tail = String::from_utf8_lossy(&tail[..read]);
        let dialect = self.dialect();
        tail.lines().any(|line| dialect.names_itself(line)) && self.is_unparsable(&exec.spec.command)
    }

    /// Asks another shell of the same kind, which only parses.
    pub(super) fn is_unparsable(&self, text: &str) -> bool {
        let Ok(held) = MemFile::new(format!("{text}\n").as_bytes()) else { return false };
        let extglob = self.state.snapshot().options.contains_key("shopt extglob");
        let mut command = Command::new(&self.spec.shell_path);
        command
            .args(if extglob { &["-O", "extglob", "-n"][..] } else { &["-n"] })
            .arg(path_of(&held))
            .env_clear();
        // In a directory that is gone, a shell complains about that.
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        // For a bad condition, `[[ a b c ]]`, bash complains and says 0.
        let complains = |stderr: &[u8]| {
            String::from_utf8_lossy(stderr)
                .lines()
                .any(|line| !line.is_empty() && !line.contains(": warning: "))
        };
        command
            .output()
            .is_ok_and(|told| matches!(told.status.code(), Some(1 | 2)) || complains(&told.stderr))
    }
}
