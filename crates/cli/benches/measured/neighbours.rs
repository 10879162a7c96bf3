//! Twenty sessions that answer while another one takes all that its limits allow.

use std::time::Duration;

use serde_json::json;
use trl_testkit::Daemon;

use super::samples::Samples;
use super::table::{Bound, Row, Table};
use super::wire::{Session, Wire};
use crate::Options;

const OTHERS: usize = 20;
/// What runs wild, and what it takes.
const WILD: [(&str, &str); 4] = [
    ("a fork bomb", "bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1000"),
    ("a memory hog", "while :; do head -c 300000000 /dev/zero | tail >/dev/null 2>&1; done"),
    ("a CPU burner", "for i in 1 2 3 4; do sh -c 'while :; do :; done' & done; sleep 1000"),
    ("a disk filler", "while :; do cat /dev/zero > /tmp/full 2>/dev/null; done"),
];

/// Only where cgroups can be had: without them there are no limits for a session as a whole.
pub fn neighbours(options: Options, daemon: &Daemon, table: &mut Table) {
    let wire = || Wire::open(&daemon.socket());
    let limits = json!({"pids": 60, "memory": "64M", "cpu": 0.3, "disk": "8M"});
    let params = json!({"isolation": "workspace", "limits": limits});
    let Ok(first) = Session::try_create_with(wire(), &params) else { return };
    first.destroy();
    let mut others: Vec<_> = (0..OTHERS).map(|_| Session::create(wire()).timed_run(":")).collect();
    let rounds = options.choose(2, 20);
    let mut all = || -> Vec<Duration> {
        (0..rounds).flat_map(|_| others.iter_mut().map(|other| other()).collect::<Vec<_>>()).collect()
    };
    all();
    for (name, command) in WILD {
        let quiet = Samples::new(all());
        let mut wild = Session::create_with(wire(), &params);
        wild.start(command);
        let beside = Samples::new(all());
        wild.destroy_at_once();
        table.push(
            Row::latency(&format!("no-op `:` in {OTHERS} sessions beside {name}"), &beside)
                .beside("the same alone", &quiet)
                .within(Bound::AtMost(2.0)),
        );
    }
}
