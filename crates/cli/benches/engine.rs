//! What a command costs, beside the least it could cost: `cargo bench -p trl --bench engine`.
//!
//! A hermetic daemon is asked over its raw socket, without the client library, so that
//! only the daemon and its hosts are measured. Each figure has its floor, measured in
//! turns with it in the same run; docs/benchmarks.md says how to read the two.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its result, and reports by failing"
)]

mod measured;

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use trl_testkit::{Daemon, process};

use measured::bare::{BareBash, pipeline, spawn_and_wait};
use measured::crowd::Crowd;
use measured::mcp::Mcp;
use measured::samples::{Samples, in_turns};
use measured::table::{Bound, Row, Table, Unit};
use measured::wire::{Session, Wire};

const USAGE: &str = "usage: cargo bench -p trl --bench engine -- [--quick] [--json] [--check] [--runtimes]";

#[derive(Debug, Clone, Copy, Default)]
struct Options {
    /// Fewer rounds, less output: a look, not a measurement.
    quick: bool,
    json: bool,
    /// A broken bound is a failure.
    check: bool,
    /// Only the rows about other runtimes.
    runtimes: bool,
}

impl Options {
    fn read() -> Option<Options> {
        let mut options = Options::default();
        for word in std::env::args().skip(1) {
            match word.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--check" => options.check = true,
                "--runtimes" => options.runtimes = true,
                // Cargo's own word to every benchmark.
                "--bench" => {}
                _ => return None,
            }
        }
        Some(options)
    }

    fn choose<T>(self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::read() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut table = Table::begin();
    if !options.runtimes {
        bulk(options, &mut table);
        with_daemon(|daemon| latencies(options, daemon, &mut table));
        with_daemon(|daemon| isolation(options, daemon, &mut table));
        with_daemon(|daemon| measured::neighbours::neighbours(options, daemon, &mut table));
    }
    let builder = || Daemon::builder(Path::new(env!("CARGO_BIN_EXE_trl")));
    measured::elsewhere::elsewhere(options.choose(5, 40), builder, &mut table);
    if !options.runtimes {
        with_daemon(|daemon| throughput(options, daemon, &mut table));
        with_daemon(|daemon| measured::idle::idle(options, daemon, &mut table));
    }
    if options.json {
        println!("{:#}", table.to_json());
    } else {
        println!("{}", table.to_markdown());
    }
    ExitCode::from(u8::from(options.check && !table.holds()))
}

fn with_daemon<T>(measure: impl FnOnce(&Daemon) -> T) -> T {
    let binary = Path::new(env!("CARGO_BIN_EXE_trl"));
    measure(&Daemon::builder(binary).env("TRL_MAX_SESSIONS", "600").start())
}

/// The latencies of single commands and of new sessions.
fn latencies(options: Options, daemon: &Daemon, table: &mut Table) {
    let rounds = options.choose(5, 40);
    let wire = || Wire::open(&daemon.socket());

    let (ours, floor) = in_turns(rounds, 20, Session::create(wire()).timed_run(":"), || {
        let start = Instant::now();
        spawn_and_wait(&["-c", ":"]);
        start.elapsed()
    });
    table.push(Row::latency("no-op `:`", &ours).beside("`bash -c :`", &floor).within(Bound::AtMost(0.15)));

    let mut bare = BareBash::start();
    let (ours, floor) = in_turns(rounds, 20, Session::create(wire()).timed_run("/bin/true"), || {
        bare.timed("/bin/true; echo x")
    });
    table.push(
        Row::latency("`/bin/true`", &ours).beside("living bare bash", &floor).within(Bound::AtMost(1.35)),
    );

    let (ours, floor) = in_turns(rounds, 5, new_session(wire(), "none"), || {
        let start = Instant::now();
        let mut bash = BareBash::start();
        bash.timed(":; echo x");
        let took = start.elapsed();
        drop(bash);
        took
    });
    table.push(
        Row::latency("new session and its first `:`", &ours)
            .beside("new bare bash, first answer", &floor)
            .within(Bound::AtMost(3.0)),
    );

    let (ours, floor) =
        in_turns(rounds, 20, Session::create(wire()).timed_first_byte("echo x"), || bare.timed("echo x"));
    table.push(Row::latency("first byte of a stream", &ours).beside("living bare bash", &floor));

    let durable = Session::create_with(wire(), &json!({"durability": "power"}));
    let (ours, floor) = in_turns(rounds, 5, durable.timed_run(":"), Session::create(wire()).timed_run(":"));
    table.push(Row::latency("no-op `:`, durability `power`", &ours).beside("durability `process`", &floor));

    let mut run = daemon.client();
    run.args(["run", ":"]).stdout(Stdio::null());
    let (ours, floor) = in_turns(
        rounds,
        5,
        || {
            let start = Instant::now();
            assert!(run.status().expect("trl runs").success());
            start.elapsed()
        },
        || {
            let start = Instant::now();
            spawn_and_wait(&["-c", ":"]);
            start.elapsed()
        },
    );
    table.push(
        Row::latency("`trl run :` as a process", &ours)
            .beside("`bash -c :`", &floor)
            .within(Bound::AtMost(2.0)),
    );

    let mut command = daemon.client();
    command.arg("mcp");
    let (ours, floor) =
        in_turns(rounds, 20, Mcp::start(command).timed_run(":"), Session::create(wire()).timed_run(":"));
    table.push(
        Row::latency("no-op `:` as an MCP tool, stdio", &ours)
            .beside("the same over the Unix socket", &floor)
            .within(Bound::AtMost(2.0)),
    );
}

/// The same in an isolated session, beside one that is not.
fn isolation(options: Options, daemon: &Daemon, table: &mut Table) {
    let rounds = options.choose(5, 40);
    let wire = || Wire::open(&daemon.socket());
    for profile in ["workspace", "strict"] {
        let (ours, floor) = in_turns(rounds, 5, new_session(wire(), profile), new_session(wire(), "none"));
        table.push(
            Row::latency(&format!("new session with isolation `{profile}`"), &ours)
                .beside("without", &floor)
                .within(Bound::AtMost(2.5)),
        );
        for command in [":", "/bin/true"] {
            let isolated = Session::create_in(wire(), profile).timed_run(command);
            let (ours, floor) = in_turns(rounds, 20, isolated, Session::create(wire()).timed_run(command));
            table.push(
                Row::latency(&format!("`{command}` with isolation `{profile}`"), &ours)
                    .beside("without", &floor)
                    .within(Bound::AtMost(1.3)),
            );
        }
    }
}

/// Creates a session and runs a command in it; its end is not in the time.
fn new_session(wire: Wire, isolation: &str) -> impl FnMut() -> Duration + use<> {
    let (mut free, isolation) = (Some(wire), isolation.to_owned());
    move || {
        let start = Instant::now();
        let mut session = Session::create_in(free.take().expect("the connection comes back"), &isolation);
        session.run(":");
        let took = start.elapsed();
        free = Some(session.destroy());
        took
    }
}

/// After two seconds without a command a session is idle, and needs less memory.
#[expect(clippy::disallowed_methods, reason = "what is measured is that time passes and nothing happens")]
fn become_idle() {
    std::thread::sleep(Duration::from_secs(4));
}

/// A gigabyte through the session's pipes, the journal and the socket; and what memory that takes.
fn bulk(options: Options, table: &mut Table) {
    let bytes: u64 = options.choose(128, 1024) << 20;
    let command = format!("yes {} | head -c {bytes}", "y".repeat(79));
    with_daemon(|daemon| {
        let mut session = Session::create(Wire::open(&daemon.socket()));
        session.run(":");
        let (host, shell) = session.pids();
        become_idle();
        table.push(
            Row::memory("idle session, PSS of keeper, host and shell", session_pss((host, shell)))
                .beside_value("what it may have", 3e6)
                .within(Bound::AtMost(1.0)),
        );
        table.push(Row::memory("idle daemon, PSS", pss(daemon.pid())));

        let (ours, floor) = in_turns(
            options.choose(1, 5),
            1,
            || session.timed_bulk(&command, bytes),
            || pipeline(&command, bytes),
        );
        let speed = |samples: &Samples| bytes as f64 / 1e6 / samples.median();
        let row = Row::new("streamed output", Unit::MegabytesPerSecond, speed(&ours));
        table.push(row.beside_value("same pipe, plainly read", speed(&floor)).within(Bound::AtLeast(0.6)));
        table.push(Row::memory("host at most, while streaming", process::memory(host).peak));
        table.push(Row::memory("daemon at most, while streaming", process::memory(daemon.pid()).peak));
    });
}

fn throughput(options: Options, daemon: &Daemon, table: &mut Table) {
    let time = Duration::from_millis(options.choose(300, 1000));
    for count in [1, 8, 64] {
        let mut sessions: Vec<(String, Session)> = (0..count)
            .map(|_| Session::create(Wire::open(&daemon.socket())))
            .map(|session| (session.run_line(":"), session))
            .collect();
        let mut bashes: Vec<BareBash> = (0..count).map(|_| BareBash::start()).collect();
        let (mut ours, mut floor) = (Crowd::default(), Crowd::default());
        for _ in 0..options.choose(1, 5) {
            ours.work(time, &mut sessions, |(line, session)| session.ask_to_run(line));
            floor.work(time, &mut bashes, |bash| {
                bash.timed(":; echo x");
            });
        }
        let named = |what: &str| match count {
            1 => format!("{what}, 1 session"),
            _ => format!("{what}, {count} sessions"),
        };
        let beside = "as many bare bashes";
        let row = Row::new(&named("no-ops"), Unit::PerSecond, ours.per_second())
            .beside_value(beside, floor.per_second());
        table.push(if count == 64 { row.within(Bound::AtLeast(0.12)) } else { row });
        let (ours, floor) = (ours.samples(), floor.samples());
        for (name, percent) in [("p50", 50), ("p99", 99)] {
            table.push(
                Row::new(&named(name), Unit::Seconds, ours.percentile(percent))
                    .beside_value(beside, floor.percentile(percent)),
            );
        }
        if count == 64 {
            let used: u64 = sessions.iter_mut().map(|(_, session)| session_pss(session.pids())).sum();
            table.push(Row::memory("each of 64 sessions after that, PSS", used / count));
            table.push(Row::memory("daemon with 64 sessions, PSS", pss(daemon.pid())));
        }
        for (_, session) in sessions {
            session.destroy();
        }
    }
}

/// Of a host, its shell, and the keeper behind the host.
fn session_pss((host, shell): (i32, i32)) -> u64 {
    let keeper = process::read(host).expect("the host lives").parent;
    pss(keeper) + pss(host) + pss(shell)
}

/// The process's own memory and its share of what it shares.
fn pss(pid: i32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .expect("the process lives, and this is root, who alone may look into the daemon");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("a sum of shares");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kilobytes * 1024
}
