//! Load, and the proof that nothing of it stays. The test runs it small, the soak large.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trl_testkit::{Connection, Daemon, Dice, process, wait_until};

/// Whatever is waited for comes sooner, even on a machine that is out of breath.
const LONG: Duration = Duration::from_secs(300);

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub sessions: usize,
    pub busy: usize,
    /// Through all busy sessions together, and then through one.
    pub commands: usize,
    pub connections: usize,
    pub kills: usize,
}

/// What was seen; bytes, and durations of single commands.
#[derive(Debug, Default)]
pub struct Seen {
    pub idle_session: u64,
    pub daemon_with_all: u64,
    pub spread: Vec<Duration>,
    pub spread_took: Duration,
    pub single: Vec<Duration>,
    pub single_took: Duration,
}

/// What a daemon uses while it has nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub descriptors: usize,
    pub children: usize,
    pub session_files: usize,
    pub memory: u64,
}

impl Usage {
    pub fn of(daemon: &Daemon) -> Usage {
        let leftovers = daemon.leftovers();
        Usage {
            descriptors: process::open_descriptors(daemon.pid()),
            children: process::children(daemon.pid()).len(),
            session_files: leftovers.session_files.len(),
            memory: pss(daemon.pid()),
        }
    }

    /// Waits until the daemon is back where it was; memory may keep what an allocator keeps.
    #[track_caller]
    pub fn is_back(&self, daemon: &Daemon, what: &str) {
        wait_until(&format!("after {what} everything is back: {self:?}"), LONG, || {
            let now = Usage::of(daemon);
            now.descriptors <= self.descriptors
                && now.children <= self.children
                && now.session_files <= self.session_files
        });
    }
}

/// The process's own memory and its share of what it shares.
pub fn pss(pid: i32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

fn connect(socket: &Path) -> Connection {
    let mut connection = Connection::open(socket).expect("the daemon listens");
    connection.set_guard(LONG);
    connection
}

/// All sessions alive at once, some of them busy; then all of the commands through one.
pub fn crowd(daemon: &Daemon, scale: Scale, seen: &mut Seen) {
    let before = Usage::of(daemon);
    let mut connection = connect(&daemon.socket());
    let sessions: Vec<Value> = (0..scale.sessions)
        .map(|_| {
            connection.ok("session.create", json!({"shell": "bash", "idle_timeout_s": 0}))["session_id"]
                .clone()
        })
        .collect();
    let list = connection.ok("session.list", json!({}));
    let rows = list["sessions"].as_array().cloned().unwrap_or_default();
    assert_eq!(rows.len(), scale.sessions);
    let memory: u64 = rows.iter().flat_map(processes_of).map(pss).sum();
    seen.idle_session = memory / scale.sessions as u64;
    seen.daemon_with_all = pss(daemon.pid());

    let begun = Instant::now();
    seen.spread = drive(&daemon.socket(), &sessions[..scale.busy], scale.commands / scale.busy);
    seen.spread_took = begun.elapsed();
    let begun = Instant::now();
    seen.single = drive(&daemon.socket(), &sessions[..1], scale.commands);
    seen.single_took = begun.elapsed();
    let info = connection.ok("session.info", json!({"session_id": sessions[0]}));
    let host = info["host_pid"].as_i64().unwrap_or_default() as i32;
    assert!(process::open_descriptors(host) < 64, "a host keeps no descriptor of a finished command");

    let ends: Vec<u64> = sessions
        .iter()
        .map(|id| connection.begin("session.destroy", json!({"session_id": id, "force": true})))
        .collect();
    for end in ends {
        connection.finish(end).data();
    }
    drop(connection);
    before.is_back(daemon, "a crowd");
    wait_until("only the daemon is left", LONG, || daemon.processes() == [daemon.pid()]);
}

/// Keeper, host and shell.
fn processes_of(row: &Value) -> Vec<i32> {
    let pid = |name: &str| row[name].as_i64().unwrap_or_default() as i32;
    let keeper = process::read(pid("host_pid")).map(|host| host.parent);
    keeper.into_iter().chain([pid("host_pid"), pid("pid")]).collect()
}

/// Numbered commands through each session at once; every answer must be the right one.
fn drive(socket: &Path, sessions: &[Value], commands: usize) -> Vec<Duration> {
    let work = |session: &Value| {
        let mut connection = connect(socket);
        let mut times = Vec::with_capacity(commands);
        connection.ok("exec.run", json!({"session_id": session, "command": "n=0"}));
        for number in 1..=commands {
            let begun = Instant::now();
            let ran = connection.ok("exec.run", json!({"session_id": session, "command": "echo $((n+=1))"}));
            times.push(begun.elapsed());
            assert_eq!(ran["stdout"], format!("{number}\n"));
        }
        times
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = sessions.iter().map(|session| scope.spawn(|| work(session))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a worker")).collect()
    })
}

/// Clients that come and go, most of them badly behaved.
pub fn connections(daemon: &Daemon, scale: Scale) {
    let before = Usage::of(daemon);
    let mut steady = connect(&daemon.socket());
    let session = steady.ok("session.create", json!({"shell": "bash"}))["session_id"].clone();
    let mut held = Vec::new();
    for number in 0..scale.connections {
        let mut client = connect(&daemon.socket());
        match number % 8 {
            0 => drop(client.ok("system.ping", json!({}))),
            1 => client.send_bytes(b"{\"id\":1,\"method\":\"exec"),
            2 => client.send_bytes(&[0xff; 4096]),
            3 => client.send_line(&"[".repeat(5000)),
            4 => drop(
                client
                    .begin("exec.run", json!({"session_id": session, "command": "echo gone", "wait_s": 60})),
            ),
            5 => {
                // One that never reads what it asked for.
                let flood = json!({"session_id": session, "command": "yes | head -c 3000000", "wait_s": 60});
                client.begin("exec.stream", flood);
                held.push(client);
            }
            6 => client.send_line(r#"{"id":1,"method":"session.info","params":{"session_id":"nobody"}}"#),
            _ => {}
        }
        if held.len() > 8 {
            held.clear();
            let ran =
                steady.ok("exec.run", json!({"session_id": session, "command": "echo ok", "wait_s": 200}));
            assert_eq!(ran["stdout"], "ok\n");
        }
    }
    drop(held);
    let ran = steady.ok("exec.run", json!({"session_id": session, "command": "echo ok", "wait_s": 200}));
    assert_eq!(ran["stdout"], "ok\n");
    steady.ok("session.destroy", json!({"session_id": session, "force": true}));
    drop(steady);
    before.is_back(daemon, "many connections");
}

/// The daemon is killed at random moments while commands run; each command runs exactly once.
pub fn kills(daemon: &mut Daemon, scale: Scale, dice: &mut Dice) {
    let mut connection = connect(&daemon.socket());
    let sessions: Vec<Value> = (0..scale.busy)
        .map(|_| connection.ok("session.create", json!({"shell": "bash", "working_dir": daemon.work()})))
        .collect();
    drop(connection);
    let done = AtomicUsize::new(0);
    let (socket, stop) = (daemon.socket(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            sessions.iter().map(|session| scope.spawn(|| count_up(&socket, session, &done, &stop))).collect();
        for _ in 0..scale.kills {
            let goal = done.load(Ordering::Relaxed) + 1 + dice.roll(3 * scale.busy);
            wait_until("work goes on", LONG, || done.load(Ordering::Relaxed) >= goal);
            daemon.restart();
        }
        stop.store(1, Ordering::Relaxed);
        for worker in workers {
            worker.join().expect("a worker");
        }
    });
    let mut connection = connect(&daemon.socket());
    let list = connection.ok("session.list", json!({}));
    let rows = list["sessions"].as_array().cloned().unwrap_or_default();
    assert_eq!(rows.len(), sessions.len(), "{list}");
    for session in &sessions {
        let row = rows.iter().find(|row| row["session_id"] == session["session_id"]).expect("it is listed");
        assert_eq!((&row["pid"], &row["restarts"]), (&session["pid"], &json!(0)), "the same shell");
        connection.ok("session.destroy", json!({"session_id": session["session_id"], "force": true}));
    }
    wait_until("only the daemon is left", LONG, || daemon.processes() == [daemon.pid()]);
}

/// Counts in the shell, each step sent again until it is answered: a step that ran twice, or not
/// at all, shows in the number.
fn count_up(socket: &Path, session: &Value, done: &AtomicUsize, stop: &AtomicUsize) {
    let mut connection = None;
    for number in 1.. {
        let id = &session["session_id"];
        let run = json!({"session_id": id, "command": "echo $((n+=1))", "run_id": format!("{id}-{number}"), "wait_s": 100});
        let answer = loop {
            let open = connection.take().or_else(|| {
                let mut open = Connection::open(socket).ok()?;
                open.set_guard(LONG);
                Some(open)
            });
            let Some(mut open) = open else {
                std::thread::park_timeout(Duration::from_millis(1));
                continue;
            };
            if let Some(answer) = open.try_call("exec.run", run.clone()) {
                connection = Some(open);
                break answer;
            }
        };
        let ran = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ran["stdout"], format!("{number}\n"), "each ran once");
        done.fetch_add(1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) > 0 {
            return;
        }
    }
}
