//! However much a command prints, memory and disk stay bounded and nothing is dropped in silence.

use std::path::Path;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, Session, Shell, daemon, event_bytes, numbers, process};

const MB: u64 = 1024 * 1024;

/// Bytes of all files below `dir`, as the disk counts them.
fn disk_use(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk_use(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

#[track_caller]
fn memory_is_small(daemon: &Daemon, session: &mut Session) {
    let (host, daemon) = (process::memory(session.host_pid()), process::memory(daemon.pid()));
    assert!(host.peak < 64 * MB, "the host used {host:?}");
    assert!(daemon.peak < 96 * MB, "the daemon used {daemon:?}");
}

#[track_caller]
fn range(session: &mut Session, exec_id: &str, stream: &str, offset: u64, limit: u64) -> Value {
    let params = json!({"exec_id": exec_id, "stream": stream, "offset": offset, "limit": limit});
    session.connection.ok(m::ExecOutput::NAME, params)
}

#[test]
fn a_gigabyte_is_counted_capped_and_readable_at_both_ends() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.connection.set_guard(std::time::Duration::from_secs(120));
    let gigabyte = 1_073_741_824_u64;
    let command = numbers::command(gigabyte);
    let ran = session.run_with(json!({"command": command, "timeout_s": 0})).exits(0);
    assert_eq!(ran.stdout_bytes, gigabyte);
    assert!(ran.stdout_truncated && ran.stdout.len() as u64 <= MB + 200);
    let end = String::from_utf8(numbers::text(gigabyte - 1000, gigabyte)).unwrap_or_default();
    assert!(ran.stdout.starts_with("100000000\n100000001\n") && ran.stdout.ends_with(&end));
    memory_is_small(&daemon, &mut session);

    let head = range(&mut session, &ran.exec_id, "stdout", 0, 5);
    assert_eq!((&head["text"], &head["next_offset"]), (&json!("10000"), &json!(5)));
    assert_eq!(head["total_bytes"], gigabyte);
    let tail = range(&mut session, &ran.exec_id, "stdout", gigabyte - 5, 100);
    assert_eq!((&tail["text"], &tail["next_offset"]), (&json!(end[995..]), &json!(gigabyte)));
    let dropped = head["dropped_bytes"].as_u64().unwrap_or_default();
    let kept = gigabyte - dropped;
    assert!((63 * MB..=64 * MB).contains(&kept), "64 MiB are kept, and what is not is told: {head}");
    let middle = range(&mut session, &ran.exec_id, "stdout", gigabyte / 2, 100);
    let kept_from = middle["offset"].as_u64().unwrap_or_default();
    assert!(kept_from > gigabyte / 2, "a range in the gap begins after it: {middle}");
    numbers::assert_at(kept_from, middle["text"].as_str().unwrap_or_default().as_bytes());
    assert!(disk_use(&daemon.home()) < 80 * MB, "the journal takes {} bytes", disk_use(&daemon.home()));
    session.survives();
}

#[test]
fn errors_alone_and_both_streams_at_once_do_not_block() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.connection.set_guard(std::time::Duration::from_secs(60));
    let ran = session.run("yes | head -c 200000000 >&2").exits(0);
    assert_eq!((ran.stdout_bytes, ran.stderr_bytes), (0, 200_000_000));
    let ran = session.run("(yes o | head -c 100000000 & yes e | head -c 100000000 >&2; wait)").exits(0);
    assert_eq!((ran.stdout_bytes, ran.stderr_bytes), (100_000_000, 100_000_000));
    memory_is_small(&daemon, &mut session);
}

#[test]
fn endless_output_stops_at_the_deadline() {
    for shell in Shell::ALL {
        let daemon = daemon!();
        let mut session = daemon.session_with(shell, json!({"limits": {"journal_bytes": 4 * MB}}));
        session.put_state();
        let ran = session.run_with(json!({"command": "yes", "timeout_s": 1}));
        assert!(ran.timed_out && ran.stdout_truncated && ran.stdout_bytes > 0, "{ran:?}");
        assert!(ran.stdout.starts_with("y\ny\n"), "what came is there");
        session.keeps_state();
        session.survives();
        let used = disk_use(&daemon.home());
        assert!(used < 12 * MB, "{used} bytes on disk for a cap of 4 MiB");
        memory_is_small(&daemon, &mut session);
    }
}

#[test]
fn an_evicted_range_is_told_as_a_gap() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"journal_bytes": MB}}));
    let ran = session.run(&numbers::command(16 * MB)).exits(0);
    let info = session.exec_info(&ran.exec_id);
    let dropped = info["stdout_dropped_bytes"].as_u64().unwrap_or_default();
    assert!((15 * MB..15 * MB + MB / 8).contains(&dropped), "one MiB of 16 is kept: {info}");

    let answer = session.attach(&ran.exec_id);
    let (mut next, mut missing) = (0_u64, 0_u64);
    for event in &answer.events {
        match event.name.as_str() {
            "gap" => {
                assert_eq!((&event.data["from"], &event.data["stream"]), (&json!(next), &json!("stdout")));
                let to = event.data["to"].as_u64().unwrap_or_default();
                missing += to - next;
                next = to;
            }
            "stdout" => {
                assert_eq!(event.data["offset"], next, "no silent gap");
                let bytes = event_bytes(&event.data);
                numbers::assert_at(next, &bytes);
                next += bytes.len() as u64;
            }
            _ => {}
        }
    }
    assert_eq!((next, missing), (16 * MB, dropped));
    assert_eq!(answer.data()["stdout_truncated"], true);
}

#[test]
fn a_slow_watcher_neither_stops_the_command_nor_fills_memory() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let mut watcher = daemon.connect();
    let params = session.params(json!({"command": numbers::command(50_000_000), "encoding": "base64"}));
    let request = watcher.begin(m::ExecStream::NAME, params);
    let exec_id = watcher.event(request).data["exec_id"].as_str().unwrap_or_default().to_owned();
    trl_testkit::wait_until("the command ends although nobody reads", trl_testkit::GUARD, || {
        session.exec_info(&exec_id)["state"] == "finished"
    });
    memory_is_small(&daemon, &mut session);
    session.survives();
    watcher.set_guard(std::time::Duration::from_secs(60));
    let answer = watcher.finish(request);
    let output = answer.output("stdout");
    assert_eq!(output.len(), 50_000_000, "all of it is still there");
    numbers::assert_at(0, &output);
    assert_eq!(answer.data()["exit_code"], 0);
}

#[test]
fn a_command_that_reads_its_own_journal_is_capped() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"journal_bytes": 2 * MB}}));
    let command =
        format!("while :; do find '{}' -type f -exec cat {{}} +; done 2>/dev/null", daemon.home().display());
    let ran = session.run_with(json!({"command": command, "timeout_s": 2}));
    assert!(ran.timed_out, "{:?}", ran.exit_code);
    let used = disk_use(&daemon.home());
    assert!(used < 12 * MB, "{used} bytes on disk for a cap of 2 MiB");
    session.survives();
}

#[test]
fn a_timeout_with_a_full_pipe_returns() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let ran = session.run_with(json!({"command": "(yes & yes >&2 & yes | cat)", "timeout_s": 1}));
    let (out, err) = (ran.stdout_bytes, ran.stderr_bytes);
    assert!(ran.timed_out && out.min(err) > 1_000_000, "{out} {err} {:?}", ran.exit_code);
    session.survives();
}

#[test]
fn output_of_old_commands_makes_room_for_new_ones() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Sh);
    let first = session.run("echo first").exec_id;
    assert_eq!(session.output_of(&first, "stdout"), b"first\n");
    for _ in 0..260 {
        session.ok("echo x");
    }
    let params = json!({"exec_id": first, "stream": "stdout"});
    session.connection.fails(m::ExecOutput::NAME, params, "EXEC_NOT_FOUND");
    let last = session.run("echo last").exec_id;
    assert_eq!(session.output_of(&last, "stdout"), b"last\n");
    let list = session.connection.ok(m::ExecList::NAME, json!({"session_id": session.id}));
    assert_eq!(list["execs"].as_array().map(Vec::len), Some(256), "{}", list["execs"]);
}
