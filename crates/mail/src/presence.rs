//! Who is live: a held connection, or a fresh heartbeat of that very process.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// What is remembered about a session's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignOfLife {
    pub heartbeat_ms: i64,
    pub pid: Option<u32>,
    /// The process's start, as the kernel counts it; a reused pid has another.
    pub pid_start: Option<u64>,
}

/// Where process facts come from.
pub trait Processes: fmt::Debug + Send + Sync + 'static {
    /// The start time of a living process; 0 where the system does not tell.
    fn start_of(&self, pid: u32) -> Option<u64>;

    /// The process that started a living one, as long as that lives itself.
    fn parent_of(&self, pid: u32) -> Option<u32>;
}

/// Pure: a heartbeat that is stale or from the future, a dead pid and a reused pid do not count.
pub fn is_live(
    sign: &SignOfLife,
    connected: bool,
    now_ms: i64,
    fresh_ms: i64,
    processes: &dyn Processes,
) -> bool {
    if connected {
        return true;
    }
    let age = now_ms - sign.heartbeat_ms;
    if !(0..fresh_ms).contains(&age) {
        return false;
    }
    match sign.pid {
        Some(pid) => processes.start_of(pid).is_some_and(|start| Some(start) == sign.pid_start),
        None => true,
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemProcesses;

impl Processes for SystemProcesses {
    fn start_of(&self, pid: u32) -> Option<u64> {
        trl_sys::process::start_time(pid)
    }

    fn parent_of(&self, pid: u32) -> Option<u32> {
        let stat = trl_sys::process::stat(i32::try_from(pid).ok()?)?;
        u32::try_from(stat.parent).ok().filter(|parent| *parent > 1)
    }
}

/// Which sessions are held by an open connection of this daemon.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<BoundSessions>);

#[derive(Debug, Default)]
struct BoundSessions {
    by_connection: HashMap<u64, String>,
    connected: HashSet<String>,
    /// Whose mail was handed out on a connection: its own, or that of a token.
    readers: HashMap<u64, HashSet<String>>,
}

/// What a connection that has ended stood for.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) session: Option<String>,
    pub(crate) readers: HashSet<String>,
}

impl Connections {
    fn with<T>(&self, look: impl FnOnce(&mut BoundSessions) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A connection speaks for one session at a time; the former one loses it.
    pub(crate) fn bind(&self, connection: u64, uuid: &str) {
        self.with(|bound| {
            bound.by_connection.insert(connection, uuid.to_owned());
            bound.recount();
        });
    }

    pub(crate) fn end(&self, connection: u64) -> Ended {
        self.with(|bound| {
            let session = bound.by_connection.remove(&connection);
            bound.recount();
            Ended { session, readers: bound.readers.remove(&connection).unwrap_or_default() }
        })
    }

    /// Mail of this session is handed out on this connection.
    pub(crate) fn reads(&self, connection: u64, uuid: &str) {
        self.with(|bound| bound.readers.entry(connection).or_default().insert(uuid.to_owned()));
    }

    pub(crate) fn is_reader(&self, connection: u64, uuid: &str) -> bool {
        self.with(|bound| bound.readers.get(&connection).is_some_and(|readers| readers.contains(uuid)))
    }

    /// A session that was released or taken over is held by no connection any more.
    pub(crate) fn drop_session(&self, uuid: &str) {
        self.with(|bound| {
            bound.by_connection.retain(|_, bound| bound != uuid);
            bound.recount();
        });
    }

    pub(crate) fn session_of(&self, connection: u64) -> Option<String> {
        self.with(|bound| bound.by_connection.get(&connection).cloned())
    }

    pub(crate) fn is_connected(&self, uuid: &str) -> bool {
        self.with(|bound| bound.connected.contains(uuid))
    }
}

impl BoundSessions {
    fn recount(&mut self) {
        self.connected = self.by_connection.values().cloned().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fake;
    impl Processes for Fake {
        fn start_of(&self, pid: u32) -> Option<u64> {
            (pid == 10).then_some(500)
        }

        fn parent_of(&self, _: u32) -> Option<u32> {
            None
        }
    }

    #[test]
    fn signs_of_life() {
        let sign = |heartbeat_ms, pid, pid_start| SignOfLife { heartbeat_ms, pid, pid_start };
        let now = 100_000;
        let cases = [
            ("fresh, same process", sign(90_000, Some(10), Some(500)), false, true),
            ("just stale", sign(70_000, Some(10), Some(500)), false, false),
            ("from the future", sign(100_001, Some(10), Some(500)), false, false),
            ("dead pid", sign(99_999, Some(11), Some(500)), false, false),
            ("reused pid", sign(99_999, Some(10), Some(400)), false, false),
            ("start never known", sign(99_999, Some(10), None), false, false),
            ("no process named, fresh", sign(99_999, None, None), false, true),
            ("held connection outweighs all", sign(0, Some(11), None), true, true),
        ];
        for (name, sign, connected, live) in cases {
            assert_eq!(is_live(&sign, connected, now, 30_000, &Fake), live, "{name}");
        }
    }

    #[test]
    fn this_process_lives_and_keeps_its_start() {
        let me = std::process::id();
        assert!(SystemProcesses.start_of(me).is_some());
        assert_eq!(SystemProcesses.start_of(me), SystemProcesses.start_of(me));
        assert_eq!(SystemProcesses.start_of(u32::MAX / 2), None);
        assert_eq!(
            SystemProcesses.parent_of(me),
            Some(std::os::unix::process::parent_id()).filter(|id| *id > 1)
        );
        assert_eq!(SystemProcesses.parent_of(u32::MAX / 2), None);
    }
}
