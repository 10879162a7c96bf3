//! Load and breakage for as long as one likes: `cargo bench -p trl --bench soak -- --minutes 60`.
//!
//! Each round has hundreds of sessions alive with some of them busy, commands by the ten thousand
//! through one and through many, clients that misbehave, and a daemon that is killed again and
//! again. After each part everything must be back where it was. The figures are those of the
//! last round; docs/reliability.md has the last measured ones.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a soak prints its result, and reports by failing"
)]

#[path = "../tests/faults/load/crowd.rs"]
mod crowd;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crowd::{Rate, Scale, Seen, Usage};
use trl_testkit::{Daemon, Dice};

const USAGE: &str = "usage: cargo bench -p trl --bench soak -- [--minutes N] [--quick]";
const FULL: Scale =
    Scale { sessions: 500, busy: 64, commands: 100_000, connections: 4000, kills: 200, creators: 4 };
const QUICK: Scale =
    Scale { sessions: 100, busy: 16, commands: 4000, connections: 800, kills: 20, creators: 2 };

fn main() -> ExitCode {
    let (mut minutes, mut scale) = (0, FULL);
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        match (word.as_str(), &mut words) {
            ("--quick", _) => scale = QUICK,
            ("--minutes", words) => match words.next().and_then(|number| number.parse().ok()) {
                Some(number) => minutes = number,
                None => return usage(),
            },
            _ => return usage(),
        }
    }
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut daemon = Daemon::builder(Path::new(env!("CARGO_BIN_EXE_trl")))
        .env("TRL_MAX_SESSIONS", "600")
        .env("TRL_LOG", "error")
        .start();
    let mut dice = Dice::from_environment();
    println!("TESTKIT_SEED={} {scale:?}", dice.seed());
    let idle = Usage::of(&daemon);
    let mut round = 0;
    loop {
        round += 1;
        let mut seen = Seen::default();
        crowd::crowd(&daemon, scale, &mut seen);
        crowd::connections(&daemon, scale);
        let after = Usage::of(&daemon);
        crowd::kills(&mut daemon, scale, &mut dice);
        tell(round, &idle, &after, seen, scale);
        if Instant::now() >= end {
            return ExitCode::SUCCESS;
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn tell(round: usize, idle: &Usage, after: &Usage, seen: Seen, scale: Scale) {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!("round {round}");
    let [keeper, host, shell] = seen.idle_session.map(megabytes);
    println!(
        "  idle session, PSS: keeper {keeper:.2} + host {host:.2} + shell {shell:.2} = {:.2} MB",
        keeper + host + shell
    );
    println!(
        "  daemon, PSS: {:.1} MB at first, {:.1} MB with {} sessions, {:.1} MB after them",
        megabytes(idle.pss),
        megabytes(seen.daemon_with_all),
        scale.sessions,
        megabytes(after.pss)
    );
    println!(
        "  daemon, without what is mapped from files: {:.1} MB at first, {:.1} MB after them",
        megabytes(idle.own_memory),
        megabytes(after.own_memory)
    );
    println!(
        "  daemon, descriptors: {} at first, {} with {} sessions, {} after them; files of sessions after them: {}",
        idle.descriptors, seen.descriptors_with_all, scale.sessions, after.descriptors, after.session_files
    );
    for Rate { sessions, mut times, took } in seen.rates {
        times.sort_unstable();
        let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "  {} commands through {sessions} of {} sessions: {:.0} /s, p50 {:.2?}, p99 {:.2?}",
            times.len(),
            scale.sessions,
            times.len() as f64 / took.as_secs_f64(),
            percentile(50),
            percentile(99)
        );
    }
    println!(
        "  {} connections, {} kills of the daemon: nothing lost, nothing left",
        scale.connections, scale.kills
    );
}
