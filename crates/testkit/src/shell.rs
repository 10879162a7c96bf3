//! The shells that a session can be, and what they are known to do differently.

use std::path::Path;

/// `Sh` is dash here, as `/bin/sh` is on the systems that the tests run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Sh,
}

impl Shell {
    pub const ALL: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Sh];

    pub fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Sh => "sh",
        }
    }

    /// Those that this machine has.
    pub fn installed() -> Vec<Shell> {
        let is_there = |shell: &Shell| {
            ["/bin", "/usr/bin", "/usr/local/bin"]
                .iter()
                .any(|dir| Path::new(dir).join(shell.name()).exists())
        };
        Shell::ALL.into_iter().filter(is_there).collect()
    }

    /// The status of a command that does not parse.
    pub fn syntax_error(self) -> i64 {
        match self {
            Shell::Bash | Shell::Sh => 2,
            Shell::Zsh => 1,
        }
    }

    /// Dash has no way to list its functions, so a new shell cannot get them back.
    pub fn can_list_functions(self) -> bool {
        self != Shell::Sh
    }
}
