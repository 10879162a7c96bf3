//! Many sessions: how fast they come and go, and what they cost while nothing happens.

use std::time::Duration;

use trl_testkit::Daemon;

use crate::measured::bare::BareBash;
use crate::measured::crowd::Crowd;
use crate::measured::table::{Bound, Row, Table, Unit};
use crate::measured::wire::{Session, Wire};
use crate::{Options, become_idle, pss, session_pss};

#[expect(clippy::disallowed_methods, reason = "what is measured is that time passes and nothing happens")]
pub fn idle(options: Options, daemon: &Daemon, table: &mut Table) {
    come_and_go(options, daemon, table);
    let count = options.choose(50, 500);
    let mut sessions: Vec<Session> = (0..count)
        .map(|_| {
            let mut session = Session::create(Wire::open(&daemon.socket()));
            session.run(":");
            session
        })
        .collect();
    let pids: Vec<(i32, i32)> = sessions.iter_mut().map(Session::pids).collect();
    become_idle();
    let used: u64 = pids.into_iter().map(session_pss).sum();
    table.push(
        Row::memory(&format!("each of {count} idle sessions, PSS"), used / count)
            .beside_value("what it may have", 1e6)
            .within(Bound::AtMost(1.0)),
    );
    table.push(Row::memory(&format!("daemon with {count} idle sessions, PSS"), pss(daemon.pid())));
    let time = Duration::from_secs(options.choose(2, 10));
    let before = wake_ups(daemon.pid());
    std::thread::sleep(time);
    let woken = (wake_ups(daemon.pid()) - before) as f64 / time.as_secs_f64();
    table.push(Row::new(
        &format!("daemon's wake-ups while {count} sessions are idle"),
        Unit::PerSecond,
        woken,
    ));
    for session in sessions {
        session.destroy();
    }
}

/// Sessions that are created, used once and destroyed, over 8 connections at once.
fn come_and_go(options: Options, daemon: &Daemon, table: &mut Table) {
    let time = Duration::from_millis(options.choose(500, 2000));
    let mut wires: Vec<Option<Wire>> = (0..8).map(|_| Some(Wire::open(&daemon.socket()))).collect();
    let (mut ours, mut floor) = (Crowd::default(), Crowd::default());
    for _ in 0..options.choose(1, 5) {
        ours.work(time, &mut wires, |wire| {
            let mut session = Session::create(wire.take().expect("the connection comes back"));
            session.run(":");
            *wire = Some(session.destroy());
        });
        floor.work(time, &mut [(); 8], |()| {
            BareBash::start().timed(":; echo x");
        });
    }
    table.push(
        Row::new("sessions created, used and destroyed by 8 connections", Unit::PerSecond, ours.per_second())
            .beside_value("as many bare bashes", floor.per_second())
            .within(Bound::AtLeast(0.4)),
    );
}

/// How often the threads of a process have waited and gone on.
fn wake_ups(pid: i32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the daemon lives").flatten();
    let switches = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.filter_map(|task| switches(std::fs::read_to_string(task.path().join("status")).ok()?)).sum()
}
