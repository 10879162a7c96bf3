//! The same commands in other runtimes, beside those of this machine.
//!
//! Containers and SSH need something to be measured with: an image that is here (`TRL_BENCH_IMAGE`), a machine that
//! `ssh` reaches without a password (`TRL_BENCH_SSH`). Without them their rows are left out. `scripts/bench-runtimes`
//! makes both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use trl_testkit::{Builder, Daemon};

use super::samples::in_turns;
use super::table::{Bound, Row, Table};
use super::wire::{Session, Wire};

/// What `ssh` and container engines are found and configured by. A daemon under test has an environment of its own.
const PASSED_ON: [&str; 3] = ["PATH", "HOME", "CONTAINERS_CONF"];

pub fn elsewhere(rounds: usize, builder: impl Fn() -> Builder, table: &mut Table) {
    let engine = std::env::var("TRL_CONTAINER_ENGINE").unwrap_or_else(|_| "podman".to_owned());
    let passed_on = PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let daemon = passed_on.fold(builder(), |builder, (name, value)| builder.env(name, value));
    let daemon = daemon.env("TRL_CONTAINER_ENGINE", &engine).start();
    if let Ok(host) = std::env::var("TRL_BENCH_SSH") {
        ssh(rounds, &daemon, &host, table);
    }
    if let Ok(image) = std::env::var("TRL_BENCH_IMAGE") {
        container(rounds, &daemon, &engine, &image, table);
    }
    other_daemon(rounds, builder, table);
}

/// A session of this daemon in a runtime, with a connection of its own.
fn session(daemon: &Daemon, runtime: &str) -> Session {
    Session::create_with(Wire::open(&daemon.socket()), &json!({"runtime": runtime, "shell": "sh"}))
}

fn ssh(rounds: usize, daemon: &Daemon, host: &str, table: &mut Table) {
    let mut local = session(daemon, "local").timed_run(":");
    let mut echo = Echo::over_ssh(host);
    let there = session(daemon, &format!("ssh:{host}")).timed_run(":");
    let (ours, floor) = in_turns(rounds, 10, there, || local() + echo.timed().mul_f64(1.5));
    table.push(
        Row::latency("no-op `:` over SSH", &ours)
            .beside("the same here, and 1.5 bare round trips", &floor)
            .within(Bound::AtMost(1.0)),
    );
}

fn container(rounds: usize, daemon: &Daemon, engine: &str, image: &str, table: &mut Table) {
    let runtime = format!("container:{image}");
    let there = session(daemon, &runtime).timed_run(":");
    let (ours, floor) = in_turns(rounds, 10, there, session(daemon, "local").timed_run(":"));
    table.push(
        Row::latency("no-op `:` in a container", &ours)
            .beside("the same here", &floor)
            .within(Bound::AtMost(2.0)),
    );
    let created = || {
        let start = Instant::now();
        let session = session(daemon, &runtime);
        let took = start.elapsed();
        drop(session.destroy());
        took
    };
    let bare = || {
        let start = Instant::now();
        let made =
            Command::new(engine).args(["run", "-d", image, "sleep", "1000"]).output().expect("the engine");
        let took = start.elapsed();
        let id = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        assert!(made.status.success() && !id.is_empty(), "{made:?}");
        let removed = Command::new(engine).args(["rm", "-f", "-t", "0", &id]).output().expect("the engine");
        assert!(removed.status.success(), "{removed:?}");
        took
    };
    let (ours, floor) = in_turns(rounds.min(10), 1, created, bare);
    table.push(
        Row::latency("new session in a container", &ours)
            .beside("the engine's `run`", &floor)
            .within(Bound::AtMost(1.3)),
    );
}

/// Another daemon of this machine: what forwarding costs.
fn other_daemon(rounds: usize, builder: impl Fn() -> Builder, table: &mut Table) {
    let far = builder().http().start();
    let http = far.http();
    let near = builder().prepare();
    let token = near.home().join(format!("config/tokens/{}", http.address));
    std::fs::create_dir_all(token.parent().expect("a directory")).expect("a directory");
    std::fs::write(&token, &http.token).expect("the token's file");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    let near = near.started();
    let there = session(&near, &format!("trl:http://{}", http.address)).timed_run(":");
    let (ours, floor) = in_turns(rounds, 20, there, session(&near, "local").timed_run(":"));
    table.push(Row::latency("no-op `:` on another daemon", &ours).beside("the same here", &floor));
}

/// A line there and back through `ssh HOST cat`.
struct Echo {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Echo {
    fn over_ssh(host: &str) -> Echo {
        let (destination, port) = host.rsplit_once(':').unwrap_or((host, "22"));
        let mut child = Command::new("ssh")
            .args(["-T", "-o", "BatchMode=yes", "-p", port, destination, "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ssh");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Echo { child, to, from: BufReader::new(from) }
    }

    fn timed(&mut self) -> Duration {
        let start = Instant::now();
        self.to.write_all(b"x\n").expect("the connection");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the connection");
        assert_eq!(line, "x\n");
        start.elapsed()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
