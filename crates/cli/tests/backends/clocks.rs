//! The clock of the other machine is years ahead of or behind the one here.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_protocol::{Method as _, methods as m};
use trl_runtime::Config;
use trl_runtime::backend::Backend;
use trl_testkit::{GUARD, wait_until};

use super::conformance;
use super::daemon::World;
use super::remote::{create, far_daemon, near_daemon, prints};
use super::ssh::Far;
use crate::faults::clock::{YEARS, shifted, year};

#[test]
fn sessions_on_a_daemon_with_another_clock_work_as_any() {
    for seconds in [YEARS, -YEARS] {
        let place = tempfile::tempdir().unwrap();
        let variables = shifted(place.path(), seconds);
        let (mut far, address) =
            far_daemon(|it| variables.into_iter().fold(it, |it, (name, value)| it.env(name, value)));
        let mut near = near_daemon(&format!("http://{address}"), "");
        let mut here = near.connect();
        here.ok(m::SessionCreate::NAME, json!({"name": "mine"}));
        create(&mut here, "s");
        let created = |it: &Value| year(&it["created_at"]);
        let (mine, theirs) = (
            here.ok(m::SessionInfo::NAME, json!({"session_id": "mine"})),
            here.ok(m::SessionInfo::NAME, json!({"session_id": "s"})),
        );
        assert!((created(&mine) - created(&theirs)).abs() >= 19, "the clocks differ: {mine} {theirs}");

        prints(&mut here, "s", "x=kept; echo $x", "kept\n");
        let params = json!({"session_id": "s", "command": "sleep 1000", "timeout_s": 0.2});
        assert_eq!(here.ok(m::ExecRun::NAME, params)["timed_out"], true);
        let params = json!({"session_id": "s", "command": "sleep 0.3; echo end", "soft_timeout_s": 0.1});
        let soft = here.ok(m::ExecRun::NAME, params);
        let waited = json!({"exec_id": soft["exec_id"], "timeout_s": 20});
        assert_eq!(here.ok(m::ExecWait::NAME, waited)["exit_code"], 0);

        // A new daemon on either side finds the session, which has not grown old meanwhile.
        far.restart();
        near.kill9();
        near.restart();
        let mut here = near.connect();
        wait_until("it is reached again", GUARD, || {
            let list = here.ok(m::SessionList::NAME, json!({}));
            let all = list["sessions"].as_array().cloned().unwrap_or_default();
            all.iter().any(|it| it["name"] == "s" && it["unresponsive"] != true)
        });
        prints(&mut here, "s", "echo $x", "kept\n");
        let shown = near.trl(&["ls"]);
        assert!(shown.status.success(), "{shown:?}");
    }
}

/// A machine over SSH whose sessions have another clock.
struct ShiftedFar {
    far: Far,
    program: PathBuf,
    _place: TempDir,
}

impl ShiftedFar {
    fn new(seconds: i64) -> Option<ShiftedFar> {
        let far = Far::new()?;
        let place = tempfile::tempdir().unwrap();
        let variables =
            shifted(place.path(), seconds).map(|(name, value)| format!("{name}={}", value.display()));
        let program = place.path().join("trl");
        let text =
            format!("#!/bin/sh\nexec env {} {} \"$@\"\n", variables.join(" "), trl_testkit::trl!().display());
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Some(ShiftedFar { far, program, _place: place })
    }
}

impl World for ShiftedFar {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        // The static program would not load the library that shifts the clock.
        let config = Config { host_program: self.program.clone(), ..config.clone() };
        self.far.backend_with(&config, None)
    }

    fn kill_host(&self, info: &Value) {
        self.far.kill_host(info);
    }

    fn assert_no_leftovers(&self) {
        self.far.assert_no_leftovers();
    }
}

#[test]
fn a_lost_session_over_ssh_is_as_old_as_the_clock_there_says() {
    for seconds in [YEARS, -YEARS] {
        if let Some(world) = ShiftedFar::new(seconds) {
            conformance::a_host_lost_without_a_daemon_is_found_lost(&world);
        }
    }
}
