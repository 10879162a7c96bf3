//! Load, and the proof that nothing of it stays. The test runs it small, the soak large.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::process::Signal;
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
    /// Clients that make and end sessions while the daemon is killed.
    pub creators: usize,
}

/// What was seen, in bytes where nothing else is said.
#[derive(Debug, Default)]
pub struct Seen {
    /// Of an idle session: its keeper, its host, its shell.
    pub idle_session: [u64; 3],
    pub daemon_with_all: u64,
    pub descriptors_with_all: usize,
    pub rates: Vec<Rate>,
}

/// How fast commands went through so many of the sessions at once.
#[derive(Debug)]
pub struct Rate {
    pub sessions: usize,
    pub times: Vec<Duration>,
    pub took: Duration,
}

/// What a daemon uses while it has nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub descriptors: usize,
    pub children: usize,
    pub session_files: usize,
    pub pss: u64,
    /// Without what is mapped from files: the share of that depends on who else has it mapped.
    pub own_memory: u64,
}

impl Usage {
    pub fn of(daemon: &Daemon) -> Usage {
        let leftovers = daemon.leftovers();
        Usage {
            descriptors: daemon.open_descriptors(),
            children: process::children(daemon.pid()).len(),
            session_files: leftovers.session_files.len(),
            pss: pss(daemon.pid()),
            own_memory: rollup(daemon.pid(), "Anonymous:"),
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
    rollup(pid, "Pss:")
}

fn rollup(pid: i32, name: &str) -> u64 {
    let rollup = match std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        // Only root may look into the daemon: the pages that it has are told to everybody.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.replace("VmRSS:", "Pss:").replace("RssAnon:", "Anonymous:")
        }
        read => read.unwrap_or_default(),
    };
    let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0 kB");
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
            connection.ok(m::SessionCreate::NAME, json!({"shell": "bash", "idle_timeout_s": 0}))["session_id"]
                .clone()
        })
        .collect();
    let list = connection.ok(m::SessionList::NAME, json!({}));
    let rows = list["sessions"].as_array().cloned().unwrap_or_default();
    assert_eq!(rows.len(), scale.sessions);
    let memory = rows
        .iter()
        .map(processes_of)
        .fold([0; 3], |sums, pids| std::array::from_fn(|which| sums[which] + pids[which].map_or(0, pss)));
    seen.idle_session = memory.map(|sum| sum / scale.sessions as u64);
    seen.daemon_with_all = pss(daemon.pid());
    seen.descriptors_with_all = daemon.open_descriptors();

    let few = scale.busy.min(8);
    seen.rates = [(scale.busy, scale.commands), (few, scale.commands / 4), (1, scale.commands)]
        .map(|(busy, commands)| {
            let begun = Instant::now();
            let times = drive(&daemon.socket(), &sessions[..busy], commands / busy);
            Rate { sessions: busy, times, took: begun.elapsed() }
        })
        .into();
    let info = connection.ok(m::SessionInfo::NAME, json!({"session_id": sessions[0]}));
    let host = info["host_pid"].as_i64().unwrap_or_default() as i32;
    assert!(process::open_descriptors(host) < 64, "a host keeps no descriptor of a finished command");

    let ends: Vec<u64> = sessions
        .iter()
        .map(|id| connection.begin(m::SessionDestroy::NAME, json!({"session_id": id, "force": true})))
        .collect();
    for end in ends {
        connection.finish(end).data();
    }
    drop(connection);
    before.is_back(daemon, "a crowd");
    wait_until("only the daemon is left", LONG, || daemon.processes() == [daemon.pid()]);
}

/// Keeper, host and shell.
fn processes_of(row: &Value) -> [Option<i32>; 3] {
    let pid = |name: &str| row[name].as_i64().map(|pid| pid as i32);
    let keeper = pid("host_pid").and_then(process::read).map(|host| host.parent);
    [keeper, pid("host_pid"), pid("pid")]
}

/// Numbered commands through each session at once; every answer must be the right one.
fn drive(socket: &Path, sessions: &[Value], commands: usize) -> Vec<Duration> {
    let work = |session: &Value| {
        let mut connection = connect(socket);
        let mut times = Vec::with_capacity(commands);
        connection.ok(m::ExecRun::NAME, json!({"session_id": session, "command": "n=0"}));
        for number in 1..=commands {
            let begun = Instant::now();
            let ran =
                connection.ok(m::ExecRun::NAME, json!({"session_id": session, "command": "echo $((n+=1))"}));
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
    let session = steady.ok(m::SessionCreate::NAME, json!({"shell": "bash"}))["session_id"].clone();
    let mut held = Vec::new();
    for number in 0..scale.connections {
        let mut client = connect(&daemon.socket());
        match number % 8 {
            0 => drop(client.ok(m::SystemPing::NAME, json!({}))),
            1 => client.send_bytes(b"{\"id\":1,\"method\":\"exec"),
            2 => client.send_bytes(&[0xff; 4096]),
            3 => client.send_line(&"[".repeat(5000)),
            4 => drop(client.begin(
                m::ExecRun::NAME,
                json!({"session_id": session, "command": "echo gone", "wait_s": 60}),
            )),
            5 => {
                // One that never reads what it asked for.
                let flood = json!({"session_id": session, "command": "yes | head -c 3000000", "wait_s": 60});
                client.begin(m::ExecStream::NAME, flood);
                held.push(client);
            }
            6 => client.send_line(r#"{"id":1,"method":"session.info","params":{"session_id":"nobody"}}"#),
            _ => {}
        }
        if held.len() > 8 {
            held.clear();
            let ran = steady
                .ok(m::ExecRun::NAME, json!({"session_id": session, "command": "echo ok", "wait_s": 200}));
            assert_eq!(ran["stdout"], "ok\n");
        }
    }
    drop(held);
    let ran =
        steady.ok(m::ExecRun::NAME, json!({"session_id": session, "command": "echo ok", "wait_s": 200}));
    assert_eq!(ran["stdout"], "ok\n");
    steady.ok(m::SessionDestroy::NAME, json!({"session_id": session, "force": true}));
    drop(steady);
    before.is_back(daemon, "many connections");
}

/// The daemon is killed at random moments while commands run, sessions come and go, and hosts are
/// stopped; each command runs exactly once, each session that was told of is there.
pub fn kills(daemon: &mut Daemon, scale: Scale, dice: &mut Dice) {
    let mut connection = connect(&daemon.socket());
    let sessions: Vec<Value> = (0..scale.busy)
        .map(|_| {
            connection.ok(m::SessionCreate::NAME, json!({"shell": "bash", "working_dir": daemon.work()}))
        })
        .collect();
    drop(connection);
    let done = AtomicUsize::new(0);
    let (socket, stop) = (daemon.socket(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            sessions.iter().map(|session| scope.spawn(|| count_up(&socket, session, &done, &stop))).collect();
        let creators: Vec<_> =
            (0..scale.creators).map(|_| scope.spawn(|| come_and_go(&socket, &stop))).collect();
        for _ in 0..scale.kills {
            let goal = done.load(Ordering::Relaxed) + 1 + dice.roll(3 * scale.busy);
            wait_until("work goes on", LONG, || done.load(Ordering::Relaxed) >= goal);
            // Now and then a host cannot answer the new daemon at once.
            let asleep = &sessions[dice.roll(4 * scale.busy) % scale.busy]["host_pid"];
            let asleep = asleep.as_i64().filter(|_| dice.roll(4) == 0).map(|pid| pid as i32);
            asleep.inspect(|host| process::signal(*host, Signal::STOP));
            daemon.restart();
            asleep.inspect(|host| process::signal(*host, Signal::CONT));
        }
        stop.store(1, Ordering::Relaxed);
        for worker in workers.into_iter().chain(creators) {
            worker.join().expect("a worker");
        }
    });
    let mut connection = connect(&daemon.socket());
    let list = connection.ok(m::SessionList::NAME, json!({}));
    let rows = list["sessions"].as_array().cloned().unwrap_or_default();
    let is_known = |row: &&Value| sessions.iter().any(|session| session["session_id"] == row["session_id"]);
    // Made, but the answer that told of it was cut off.
    let untold: Vec<&Value> = rows.iter().filter(|row| !is_known(row)).collect();
    assert!(untold.len() <= scale.kills * scale.creators, "{list}");
    for row in untold {
        connection.ok(m::SessionDestroy::NAME, json!({"session_id": row["session_id"], "force": true}));
    }
    for session in &sessions {
        let row = rows.iter().find(|row| row["session_id"] == session["session_id"]).expect("it is listed");
        assert_eq!((&row["pid"], &row["restarts"]), (&session["pid"], &json!(0)), "the same shell");
        connection.ok(m::SessionDestroy::NAME, json!({"session_id": session["session_id"], "force": true}));
    }
    wait_until("only the daemon is left", LONG, || daemon.processes() == [daemon.pid()]);
}

/// Makes a session, uses it, ends it, until told to stop; a daemon that is killed in between is asked again.
fn come_and_go(socket: &Path, stop: &AtomicUsize) {
    let mut connection = None;
    while stop.load(Ordering::Relaxed) == 0 {
        // Once only: asked again it would make a second one.
        let mut open = persist(|| reconnect(&mut connection, socket));
        let Some(created) = open.try_call(m::SessionCreate::NAME, json!({"shell": "sh"})) else { continue };
        let created = created.unwrap_or_else(|error| panic!("{error}"));
        connection = Some(open);
        let session = json!({"session_id": created["session_id"]});
        let ran = json!({"session_id": created["session_id"], "command": "echo up", "wait_s": 100});
        let ran = call_until_answered(&mut connection, socket, m::ExecRun::NAME, &ran);
        assert_eq!(ran.unwrap_or_else(|error| panic!("{error}"))["stdout"], "up\n");
        match call_until_answered(&mut connection, socket, m::SessionDestroy::NAME, &session) {
            Ok(_) => {}
            // The first request did it, and its answer was cut off.
            Err(error) => {
                let over = ["SESSION_NOT_FOUND", "SESSION_TERMINATED"];
                assert!(over.contains(&error["code"].as_str().unwrap_or_default()), "{error}");
            }
        }
    }
}

/// The connection that is there, or a new one; None if there is no daemon just now.
fn reconnect(connection: &mut Option<Connection>, socket: &Path) -> Option<Connection> {
    connection.take().or_else(|| {
        let mut open = Connection::open(socket).ok()?;
        open.set_guard(LONG);
        Some(open)
    })
}

fn persist<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        match attempt() {
            Some(done) => return done,
            None => std::thread::park_timeout(Duration::from_millis(1)),
        }
    }
}

/// Sends it again whenever a daemon dies over it.
fn call_until_answered(
    connection: &mut Option<Connection>,
    socket: &Path,
    method: &str,
    params: &Value,
) -> Result<Value, Value> {
    persist(|| {
        let mut open = reconnect(connection, socket)?;
        let answer = open.try_call(method, params.clone())?;
        *connection = Some(open);
        Some(answer)
    })
}

/// Counts in the shell, each step sent again until it is answered: a step that ran twice, or not
/// at all, shows in the number.
fn count_up(socket: &Path, session: &Value, done: &AtomicUsize, stop: &AtomicUsize) {
    let mut connection = None;
    for number in 1.. {
        let id = &session["session_id"];
        let run = json!({"session_id": id, "command": "echo $((n+=1))", "run_id": format!("{id}-{number}"), "wait_s": 100});
        let answer = call_until_answered(&mut connection, socket, m::ExecRun::NAME, &run);
        let ran = answer.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ran["stdout"], format!("{number}\n"), "each ran once");
        done.fetch_add(1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) > 0 {
            return;
        }
    }
}
