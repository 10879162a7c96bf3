//! Load in small: the soak (`just soak`) runs the same with hundreds of sessions for as long as one likes.

#[allow(
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "that is how a test fails; some figures are the soak's"
)]
mod crowd;

use crowd::{Scale, Seen, Usage};
use trl_testkit::{Daemon, Dice, trl};

const SMALL: Scale = Scale { sessions: 40, busy: 8, commands: 400, connections: 240, kills: 12, creators: 2 };

#[test]
fn a_crowd_leaves_nothing_behind() {
    let daemon = Daemon::builder(trl!()).start();
    let mut seen = Seen::default();
    crowd::crowd(&daemon, SMALL, &mut seen);
    let warm = Usage::of(&daemon);
    crowd::crowd(&daemon, SMALL, &mut seen);
    let after = Usage::of(&daemon);
    // What an allocator keeps for the next time is there after the first time.
    assert!(after.own_memory < warm.own_memory * 3 / 2, "{warm:?} {after:?}");
}

#[test]
fn clients_that_misbehave_leave_nothing_behind() {
    let daemon = Daemon::builder(trl!()).start();
    crowd::connections(&daemon, SMALL);
}

#[test]
fn kills_of_the_daemon_under_load_cost_no_step() {
    let mut daemon = Daemon::builder(trl!()).start();
    let mut dice = Dice::from_environment();
    crowd::kills(&mut daemon, SMALL, &mut dice);
}
