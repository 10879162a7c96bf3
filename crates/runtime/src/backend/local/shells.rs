//! Which shell a session on this machine gets.

use trl_protocol::Fault;
use trl_protocol::system::ShellFound;
use trl_protocol::wire::Dialect;
use trl_sys::shells::{self, FoundShell, Kind, Search};

/// The shell that was asked for, or the default.
pub(super) fn resolve(asked: Option<&str>, search: Search<'_>) -> Result<FoundShell, Fault> {
    shells::resolve(asked, search).map_err(|error| {
        Fault::invalid(format!("param `shell`: {error}"))
            .with_details(serde_json::json!({ "field": "shell" }))
    })
}

pub(super) fn installed(search: Search<'_>) -> Vec<ShellFound> {
    let told = |shell: FoundShell| ShellFound { name: shell.name, path: shell.path.display().to_string() };
    shells::installed(search).into_iter().map(told).collect()
}

pub(super) fn dialect(kind: Kind) -> Dialect {
    match kind {
        Kind::Bash => Dialect::Bash,
        Kind::Zsh => Dialect::Zsh,
        Kind::Sh => Dialect::Sh,
    }
}
