//! The harness that runs us, as far as the environment tells: its name, and which session of it this is.

/// What harnesses call their session, in the order in which they are believed.
const SESSION: [&str; 2] = ["TRL_HARNESS_SESSION_ID", "CLAUDE_CODE_SESSION_ID"];
/// Set by Claude Code: the first for commands, the others for servers too.
const CLAUDE: [&str; 3] = ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT"];
/// And it tells them where its session is.
const PROJECT: &str = "CLAUDE_PROJECT_DIR";
/// As much as the daemon takes.
const LONGEST: usize = 256;

pub(crate) fn session_id() -> Option<String> {
    let told = SESSION.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    told.filter(|id| id.len() <= LONGEST)
}

/// The directory of the project that the session is about.
pub(crate) fn project() -> Option<String> {
    std::env::var(PROJECT).ok().filter(|dir| dir.starts_with('/'))
}

/// The stem of mail labels.
pub(crate) fn name() -> Option<&'static str> {
    CLAUDE.iter().any(|name| std::env::var_os(name).is_some()).then_some("claude")
}

/// The processes above a hook, nearest first: the harness, or a shell between it and us. Not further: a harness may
/// run inside another.
pub(crate) fn pids() -> Vec<u32> {
    let parent = std::os::unix::process::parent_id();
    let above = i32::try_from(parent).ok().and_then(trl_sys::process::stat).map(|stat| stat.parent);
    let above = above.and_then(|pid| u32::try_from(pid).ok());
    [Some(parent), above].into_iter().flatten().filter(|pid| *pid > 1).collect()
}
