//! The conformance suite on this machine.

use std::sync::Arc;
use std::sync::Mutex;

use serde_json::Value;
use trl_runtime::Config;
use trl_runtime::backend::{Backend, Local};
use trl_testkit::process;

use super::daemon::World;

/// Local hosts in the directories of the daemon.
#[derive(Default)]
struct Here {
    /// Where hosts listen and keep their files.
    dirs: Mutex<Vec<std::path::PathBuf>>,
}

impl World for Here {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        let dirs = [config.runtime_dir.join("hosts"), config.state_dir.join("sessions")];
        *self.dirs.lock().unwrap() = dirs.to_vec();
        Arc::new(Local::new(config).unwrap())
    }

    fn kill_host(&self, info: &Value) {
        kill_host_process(info);
    }

    fn assert_no_leftovers(&self) {
        for dir in self.dirs.lock().unwrap().iter() {
            assert_empty(dir);
        }
    }
}

pub(super) fn kill_host_process(info: &Value) {
    let pid = info["host_pid"].as_i64().unwrap() as i32;
    process::signal(pid, process::Signal::KILL);
    process::assert_ends("the host", pid);
}

#[track_caller]
pub(super) fn assert_empty(dir: &std::path::Path) {
    let names: Vec<_> = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(names.is_empty(), "{} holds {names:?}", dir.display());
}

super::conformance::conformance!(Here::default());
