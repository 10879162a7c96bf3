//! The harness that runs us, as far as the environment tells: its name, and which session of it this is.

/// What harnesses call their session, in the order in which they are believed.
const SESSION: [&str; 2] = ["TRL_HARNESS_SESSION_ID", "CLAUDE_CODE_SESSION_ID"];
/// Set by Claude Code for everything that it starts.
const CLAUDE: &str = "CLAUDECODE";
/// As much as the daemon takes.
const LONGEST: usize = 256;

pub(crate) fn session_id() -> Option<String> {
    let told = SESSION.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    told.filter(|id| id.len() <= LONGEST)
}

/// The stem of mail labels.
pub(crate) fn name() -> Option<&'static str> {
    std::env::var_os(CLAUDE).map(|_| "claude")
}
