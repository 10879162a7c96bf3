//! Ends the processes that sessions without a host have left running.
//!
//! A host's keeper does this at once and completely. This is for the case that the keeper was
//! killed as well: it finds every process that carries the session's id in its environment.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Signal;
use trl_protocol::SessionId;
use trl_sys::pidfd::ProcessHandle;
use trl_sys::process;

use crate::blocking::run_blocking;

/// Processes that fork faster than they can be listed are met again in the next round.
const ROUNDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns when none is left, as far as can be told. Their hosts must be gone.
pub(super) async fn end(sessions: Vec<SessionId>) {
    if sessions.is_empty() {
        return;
    }
    let all = sessions.clone();
    let ended = match run_blocking(move || end_blocking(&all)).await {
        Ok(ended) => ended,
        // The orphans themselves may take up the threads that are missing, so this thread does it.
        Err(_) => end_blocking(&sessions),
    };
    if let count @ 1.. = ended {
        tracing::warn!(count, "processes of lost sessions were ended");
    }
}

fn end_blocking(sessions: &[SessionId]) -> usize {
    let sessions: HashSet<String> = sessions.iter().map(SessionId::to_string).collect();
    let mut ended = 0;
    for _ in 0..ROUNDS {
        let found: Vec<_> = process::all_others().filter_map(|pid| handle_of(pid, &sessions)).collect();
        if found.is_empty() {
            break;
        }
        ended += found.len();
        for handle in &found {
            handle.signal(Signal::KILL);
        }
        for handle in &found {
            handle.wait(Some(PATIENCE));
        }
    }
    ended
}

/// A handle on the process if it is one of these sessions'. Looked at after the handle was
/// taken, so that it is the very process that was looked at.
fn handle_of(pid: i32, sessions: &HashSet<String>) -> Option<ProcessHandle> {
    if !belongs(&process::environment(pid)?, sessions) {
        return None;
    }
    // A daemon that was started on demand from inside is not the session's.
    if process::has_argument(pid, b"--detached") {
        return None;
    }
    let handle = ProcessHandle::open(pid)?;
    belongs(&process::environment(pid)?, sessions).then_some(handle)
}

fn belongs(environment: &[u8], sessions: &HashSet<String>) -> bool {
    let mut variables = environment.split(|&byte| byte == 0);
    let id = variables.find_map(|variable| variable.strip_prefix(b"TRL_SESSION_ID="));
    id.and_then(|id| str::from_utf8(id).ok()).is_some_and(|id| sessions.contains(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_session_is_meant() {
        let lost = HashSet::from(["s-00000007".to_owned()]);
        for (environment, meant) in [
            (&b"A=1\0TRL_SESSION_ID=s-00000007\0B=2\0"[..], true),
            (b"TRL_SESSION_ID=s-00000007", true),
            (b"TRL_SESSION_ID=s-00000008\0", false),
            (b"X_TRL_SESSION_ID=s-00000007\0", false),
            (b"A=TRL_SESSION_ID=s-00000007\0", false),
            (b"TRL_SESSION_ID=s-0000000\0", false),
            (b"", false),
        ] {
            assert_eq!(belongs(environment, &lost), meant, "{}", String::from_utf8_lossy(environment));
        }
    }
}
