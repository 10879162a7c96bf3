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

#[path = "../tests/load/mod.rs"]
mod load;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use load::{Scale, Seen, Usage, pss};
use trl_testkit::{Daemon, Dice};

const USAGE: &str = "usage: cargo bench -p trl --bench soak -- [--minutes N] [--quick]";
const FULL: Scale = Scale { sessions: 500, busy: 64, commands: 100_000, connections: 4000, kills: 200 };
const QUICK: Scale = Scale { sessions: 100, busy: 16, commands: 4000, connections: 800, kills: 20 };

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
    let idle = pss(daemon.pid());
    let mut round = 0;
    loop {
        round += 1;
        let mut seen = Seen::default();
        load::crowd(&daemon, scale, &mut seen);
        load::connections(&daemon, scale);
        let after = Usage::of(&daemon);
        load::kills(&mut daemon, scale, &mut dice);
        tell(round, idle, &after, seen, scale);
        if Instant::now() >= end {
            return ExitCode::SUCCESS;
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn tell(round: usize, idle: u64, after: &Usage, mut seen: Seen, scale: Scale) {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    println!("round {round}");
    println!("  idle session (keeper, host, shell), PSS: {:.2} MB", megabytes(seen.idle_session));
    println!(
        "  daemon, PSS: {:.2} MB at first, {:.2} MB with {} sessions, {:.2} MB after them",
        megabytes(idle),
        megabytes(seen.daemon_with_all),
        scale.sessions,
        megabytes(after.memory)
    );
    for (name, times, took) in [
        (format!("{} sessions of {}", scale.busy, scale.sessions), &mut seen.spread, seen.spread_took),
        ("1 session".to_owned(), &mut seen.single, seen.single_took),
    ] {
        times.sort_unstable();
        let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
        println!(
            "  {} commands through {name}: {:.0} /s, p50 {:?}, p99 {:?}",
            times.len(),
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
