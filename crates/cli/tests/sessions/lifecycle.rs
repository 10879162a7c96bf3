//! Sessions from creation to end: what may be asked for, what is told, what is left.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Shell, daemon, in_each_shell, process, trl, wait_until};

fn looks_like_an_id(id: &str) -> bool {
    id.strip_prefix("s-")
        .is_some_and(|hex| hex.len() == 8 && hex.bytes().all(|byte| b"0123456789abcdef".contains(&byte)))
}

/// RFC 3339, UTC, milliseconds.
fn looks_like_a_time(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T' && text.as_bytes()[19] == b'.'
}

fn creation_tells_what_was_made(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"name": "build:1", "env": {"GIVEN": "v"}}));
    let created = session.created.clone();
    assert!(looks_like_an_id(&session.id), "{created}");
    assert_eq!((&created["name"], &created["state"]), (&json!("build:1"), &json!("idle")), "{created}");
    assert_eq!(created["working_dir"], daemon.work().display().to_string());
    assert!(created["shell"].as_str().is_some_and(|told| told.contains(shell.name())), "{created}");
    assert!(looks_like_a_time(&created["created_at"]), "{created}");
    assert!(created["pid"].as_i64().is_some_and(|pid| process::alive(pid as i32)), "{created}");
    let info = session.info();
    for same in ["session_id", "name", "shell", "working_dir", "state", "created_at", "pid"] {
        assert_eq!(info[same], created[same], "{same}");
    }
    assert!(looks_like_a_time(&info["last_activity"]), "{info}");
    assert_eq!(
        (&info["command_count"], &info["restarts"], &info["queued"], &info["timeout_s"]),
        (&json!(0), &json!(0), &json!(0), &json!(60.0)),
        "{info}"
    );
    assert!(info["host_pid"].as_i64().is_some_and(|pid| process::alive(pid as i32)), "{info}");
    let list = session.connection.ok(m::SessionList::NAME, json!({}));
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1));
    for same in ["session_id", "name", "shell", "working_dir", "pid", "host_pid", "command_count"] {
        assert_eq!(list["sessions"][0][same], info[same], "{same}");
    }
    session.run("echo $GIVEN; echo $TRL_SESSION_ID").exits(0).prints(&format!("v\n{}\n", session.id), "");
}

/// Those that were given and are still exported, and those exported since: the same in each shell.
fn variables_are_told_while_they_are_exported(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"env": {"STAYS": "1", "GONE": "2", "INNER": "3"}}));
    assert_eq!(session.info()["env_keys"], json!(["GONE", "INNER", "STAYS"]));
    session.ok("cd /; unset GONE INNER; INNER=3; LATER=4; export LATER; own=5");
    // The state is printed after the reply.
    session.ok("true; :");
    session.ok("true; :");
    assert_eq!(session.info()["env_keys"], json!(["LATER", "STAYS"]));
}

fn only_names_of_variables_are_told(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"env": {"API_KEY": "s3cr3t-value"}}));
    session.ok("LATER='s3cr3t-later'; export LATER");
    let info = session.info();
    let keys: Vec<&str> =
        info["env_keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(keys.contains(&"API_KEY"), "{info}");
    assert!(!info.to_string().contains("s3cr3t"), "{info}");
    assert!(!session.connection.ok("session.list", json!({})).to_string().contains("s3cr3t"));
}

fn a_session_ends_with_everything_in_it(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let (pid, host) = (session.pid(), session.host_pid());
    session.ok("sleep 1000 & true");
    let children = process::descendants(host);
    assert_eq!(session.destroy(), json!({"session_id": session.id, "state": "terminated"}));
    assert!(!process::alive(pid) && children.into_iter().all(|child| !process::alive(child)));
    process::assert_ends("the host", host);
    for (method, params) in [
        (m::SessionInfo::NAME, json!({"session_id": session.id})),
        (m::SessionDestroy::NAME, json!({"session_id": session.id})),
        (m::SessionRestart::NAME, json!({"session_id": session.id})),
        (m::ExecRun::NAME, json!({"session_id": session.id, "command": "true"})),
        (m::ExecCancel::NAME, json!({"session_id": session.id})),
    ] {
        let error = session.connection.call(method, params).err().unwrap_or_default();
        let code = error["code"].as_str().unwrap_or_default();
        assert!(["SESSION_NOT_FOUND", "SESSION_TERMINATED"].contains(&code), "{method}: {error}");
    }
    assert_eq!(session.connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    assert!(daemon.leftovers().session_files.is_empty(), "{:?}", daemon.leftovers().session_files);
}

fn a_running_command_hears_of_its_sessions_end(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let (request, _) =
        session.stream_until(json!({"command": "echo up; sleep 1000", "timeout_s": 0}), "up\n");
    let params = session.params(json!({"command": "echo queued", "wait_s": 60}));
    let queued = session.connection.begin(m::ExecRun::NAME, params);
    let mut other = daemon.connect();
    other.ok(m::SessionDestroy::NAME, json!({"session_id": session.id}));
    session.connection.finish(request).failed("SESSION_TERMINATED");
    session.connection.finish(queued).failed("SESSION_TERMINATED");
}

fn programs_may_clean_up_unless_forced(shell: Shell) {
    let daemon = daemon!();
    for force in [false, true] {
        let mut session = daemon.session(shell);
        let command = format!(
            "sh -c 'trap \"sleep 0.1; touch cleaned-{force}; exit\" TERM; echo up; while :; do sleep 0.05; done'"
        );
        session.stream_until(json!({"command": command, "timeout_s": 0}), "up\n");
        let mut other = daemon.connect();
        other.ok(m::SessionDestroy::NAME, json!({"session_id": session.id, "force": force}));
        let cleaned = process::exists(daemon.work().join(format!("cleaned-{force}")));
        assert_eq!(cleaned, !force, "force: {force}");
    }
}

/// The shell itself waits at its prompt.
fn jobs_may_clean_up_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let job = "sh -c 'trap \"sleep 0.1; touch cleaned; exit\" TERM; touch up; while :; do sleep 0.05; done'";
    session.ok(&format!("{job} >/dev/null 2>&1 &"));
    wait_until("the job runs", GUARD, || daemon.work().join("up").exists());
    wait_until("the shell is idle", GUARD, || session.info()["state"] == "idle");
    session.destroy();
    assert!(daemon.work().join("cleaned").exists());
}

/// The session ends while the shell prints its state, after the reply: nothing of that is the trap's.
fn a_trap_on_exit_has_its_own_output(shell: Shell) {
    let daemon = daemon!();
    let left = daemon.work().join("left");
    for round in 0..12 {
        let mut session = daemon.session(shell);
        let job = if round % 2 == 0 { "" } else { "; sleep 1000 &" };
        // There is much to print, so that its end comes in the middle of it.
        session
            .ok(&format!("x=$(head -c 200000 /dev/zero | tr '\\0' a); trap 'echo goodbye > left' EXIT{job}"));
        session.destroy();
        assert_eq!(std::fs::read_to_string(&left).unwrap_or_default(), "goodbye\n");
        std::fs::remove_file(&left).ok();
    }
}

fn a_lost_host_is_told_of(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"name": "lost"}));
    session.put_state();
    let pid = session.pid();
    session.kill_host();
    wait_until("the loss is noticed", GUARD, || {
        let list = daemon.connect().ok(m::SessionList::NAME, json!({}));
        list["sessions"].as_array().is_none_or(|rows| rows.iter().all(|row| row["state"] == "lost"))
    });
    let params = session.params(json!({"command": "touch hit"}));
    let error = session.connection.call(m::ExecRun::NAME, params).err().unwrap_or_default();
    let code = error["code"].as_str().unwrap_or_default();
    assert!(["SESSION_TERMINATED", "SESSION_NOT_FOUND"].contains(&code), "{error}");
    process::assert_ends("the shell of a lost session", pid);
    let other = daemon.session(shell);
    drop(other);
    let params = session.params(json!({}));
    let _gone_or_ended = session.connection.call(m::SessionDestroy::NAME, params);
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

#[test]
fn limits_are_told_whichever_they_are() {
    let daemon = daemon!();
    for (name, most) in [("max_queue", 3), ("max_commands", 7), ("journal_bytes", 1_000_000)] {
        let mut session = daemon.session_with(Shell::Sh, json!({"limits": {name: most}}));
        assert_eq!(session.info()["limits"][name], json!(most), "{name}");
    }
    assert_eq!(daemon.session(Shell::Sh).info()["limits"], Value::Null);
}

in_each_shell!(
    creation_tells_what_was_made,
    variables_are_told_while_they_are_exported,
    only_names_of_variables_are_told,
    a_session_ends_with_everything_in_it,
    a_running_command_hears_of_its_sessions_end,
    programs_may_clean_up_unless_forced,
    jobs_may_clean_up_too,
    a_lost_host_is_told_of,
);

#[test]
fn a_trap_on_exit_in_bash_has_its_own_output() {
    a_trap_on_exit_has_its_own_output(Shell::Bash);
}

#[test]
fn a_trap_on_exit_in_zsh_has_its_own_output() {
    a_trap_on_exit_has_its_own_output(Shell::Zsh);
}

#[test]
fn a_name_can_stand_for_its_session_everywhere() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"name": "my.build-1"}));
    let name = json!("my.build-1");
    let ran = session.connection.ok(m::ExecRun::NAME, json!({"session_id": name, "command": "echo hi"}));
    assert_eq!(ran["stdout"], "hi\n");
    assert_eq!(
        session.connection.ok(m::SessionInfo::NAME, json!({"session_id": name}))["session_id"],
        session.id.as_str()
    );
    assert_eq!(
        session.connection.ok(m::ExecList::NAME, json!({"session_id": name}))["execs"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    session.connection.ok(m::ExecCancel::NAME, json!({"session_id": name}));
    session.connection.ok(m::SessionRestart::NAME, json!({"session_id": name}));
    let message = session.connection.fails(m::SessionCreate::NAME, json!({"name": name}), "NAME_TAKEN");
    assert!(message.contains("my.build-1"), "{message}");
    session.connection.ok(m::SessionDestroy::NAME, json!({"session_id": name}));
    let again = session.connection.ok(m::SessionCreate::NAME, json!({"name": name, "shell": "bash"}));
    assert_eq!(again["name"], name, "a name is free again after its session's end");
}

#[test]
fn names_that_could_confuse_are_refused() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for name in [
        "",
        " ",
        "a b",
        " a",
        "a ",
        "a/b",
        "/",
        ".",
        "..",
        "...",
        "s-00000000",
        "é",
        "a\n",
        "a\u{0}",
        "~",
        "$x",
        &"x".repeat(65),
    ] {
        connection.fails(m::SessionCreate::NAME, json!({"name": name}), "INVALID_PARAMS");
    }
    for name in ["a", "A.b_c".replace('_', "-").as_str(), "1", "x:y", &"x".repeat(64)] {
        connection.ok(m::SessionCreate::NAME, json!({"name": name, "shell": "sh"}));
    }
    assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_shell_that_is_not_there_is_named_with_those_that_are() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for shell in ["fish", "nosuchshell", "/nonexistent/bash", "/bin/cat", "", "bash -x", "../bash"] {
        let message = connection.fails(m::SessionCreate::NAME, json!({"shell": shell}), "INVALID_PARAMS");
        assert!(message.contains(shell), "{shell:?} is named: {message}");
    }
    assert!(connection.fails("session.create", json!({"shell": "fish"}), "INVALID_PARAMS").contains("bash"));
    for shell in ["bash", "zsh", "sh", "dash", "/bin/bash", "/bin/dash"] {
        let created = connection.ok(m::SessionCreate::NAME, json!({"shell": shell}));
        let ran = connection
            .ok(m::ExecRun::NAME, json!({"session_id": created["session_id"], "command": "echo ok"}));
        assert_eq!(ran["stdout"], "ok\n", "{shell}");
    }
    let created = connection.ok(m::SessionCreate::NAME, json!({}));
    assert!(
        created["shell"].as_str().is_some_and(|shell| shell.contains("bash")),
        "bash is the default: {created}"
    );
}

#[test]
fn the_default_shell_is_the_users() {
    let daemon = Daemon::builder(trl!()).env("SHELL", "/bin/zsh").start();
    let created = daemon.connect().ok(m::SessionCreate::NAME, json!({}));
    assert!(created["shell"].as_str().is_some_and(|shell| shell.contains("zsh")), "{created}");
    let daemon = Daemon::builder(trl!()).env("SHELL", "/usr/bin/fish").start();
    let created = daemon.connect().ok(m::SessionCreate::NAME, json!({}));
    assert!(created["shell"].as_str().is_some_and(|shell| shell.contains("bash")), "{created}");
}

#[test]
fn a_directory_or_variable_that_cannot_be_is_refused() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let message =
        connection.fails(m::SessionCreate::NAME, json!({"working_dir": "/no/such/place"}), "INVALID_PARAMS");
    assert!(message.contains("/no/such/place"), "{message}");
    connection.fails(m::SessionCreate::NAME, json!({"working_dir": "/dev/null"}), "INVALID_PARAMS");
    for name in ["INVALID-NAME", "1X", "A B", "", "A=B"] {
        let message = connection.fails(m::SessionCreate::NAME, json!({"env": {name: "x"}}), "INVALID_PARAMS");
        assert!(message.contains(name), "{message}");
    }
    connection.fails(m::SessionCreate::NAME, json!({"env": {"A": "a\u{0}b"}}), "INVALID_PARAMS");
    connection.fails(m::SessionCreate::NAME, json!({"timeout_s": -1}), "INVALID_PARAMS");
    connection.fails(m::SessionCreate::NAME, json!({"idle_timeout_s": -1}), "INVALID_PARAMS");
    assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    assert!(daemon.leftovers().session_files.is_empty());
}

#[test]
fn there_are_no_more_sessions_than_allowed() {
    let daemon = Daemon::builder(trl!()).env("TRL_MAX_SESSIONS", "2").start();
    let mut first = daemon.session(Shell::Bash);
    let second = daemon.session(Shell::Sh);
    let message = first.connection.fails(m::SessionCreate::NAME, json!({}), "MAX_SESSIONS_REACHED");
    assert!(message.contains('2'), "{message}");
    first.destroy();
    let third = daemon.session(Shell::Bash);
    drop((second, third));
    let requests: Vec<u64> =
        (0..5).map(|_| first.connection.begin(m::SessionCreate::NAME, json!({}))).collect();
    let refused =
        requests.into_iter().filter(|&request| first.connection.finish(request).result.is_err()).count();
    assert_eq!(refused, 5, "the limit holds for requests at the same time too");
}

#[test]
fn many_sessions_can_be_made_and_ended_at_once() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let requests: Vec<u64> = (0..30)
        .map(|number| {
            connection.begin(m::SessionCreate::NAME, json!({"shell": Shell::ALL[number % 3].name()}))
        })
        .collect();
    let ids: Vec<Value> =
        requests.into_iter().map(|request| connection.finish(request).data()["session_id"].clone()).collect();
    let runs: Vec<u64> = ids
        .iter()
        .map(|id| {
            connection.begin(
                m::ExecRun::NAME,
                json!({"session_id": id, "command": "echo $TRL_SESSION_ID; sleep 1000 &"}),
            )
        })
        .collect();
    for (id, run) in ids.iter().zip(runs) {
        assert_eq!(connection.finish(run).data()["stdout"], format!("{}\n", id.as_str().unwrap_or_default()));
    }
    let ends: Vec<u64> =
        ids.iter().map(|id| connection.begin(m::SessionDestroy::NAME, json!({"session_id": id}))).collect();
    for end in ends {
        assert_eq!(connection.finish(end).data()["state"], "terminated");
    }
    wait_until("the hosts are gone", GUARD, || daemon.processes() == [daemon.pid()]);
    assert!(daemon.leftovers().session_files.is_empty());
}

#[test]
fn creating_and_ending_over_and_over_leaks_nothing() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let mut round = || {
        let created = connection.ok(m::SessionCreate::NAME, json!({"shell": "sh", "name": "again"}));
        connection.ok(m::ExecRun::NAME, json!({"session_id": "again", "command": "echo hi"}));
        connection.ok(m::SessionDestroy::NAME, json!({"session_id": created["session_id"], "force": true}));
    };
    (0..5).for_each(|_| round());
    let before = daemon.open_descriptors();
    (0..30).for_each(|_| round());
    wait_until("descriptors are closed", GUARD, || daemon.open_descriptors() <= before + 1);
    wait_until("the hosts are gone", GUARD, || daemon.processes() == [daemon.pid()]);
    let zombies = process::children(daemon.pid());
    assert!(zombies.is_empty(), "{zombies:?}");
}

#[test]
fn an_idle_session_ends_by_itself() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"idle_timeout_s": 0.5}));
    let mut lasting = daemon.session_with(Shell::Bash, json!({"idle_timeout_s": 0}));
    let (pid, host) = (session.pid(), session.host_pid());
    session.run("sleep 1; echo busy is not idle").exits(0).prints("busy is not idle\n", "");
    process::assert_ends("the shell of an idle session", pid);
    process::assert_ends("its host", host);
    wait_until("it is no longer listed", GUARD, || {
        let list = lasting.connection.ok(m::SessionList::NAME, json!({}));
        list["sessions"].as_array().map(Vec::len) == Some(1)
    });
    lasting.survives();
}

#[test]
fn a_session_refuses_more_commands_than_allowed() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"max_commands": 2}}));
    session.ok("true");
    session.ok("true");
    session.refused(json!({"command": "touch hit"}), "SESSION_LIMIT_EXCEEDED");
    assert!(!process::exists(daemon.work().join("hit")));
}

#[test]
fn start_up_files_are_read_only_on_request() {
    let daemon = daemon!();
    for (shell, file) in [(Shell::Bash, ".bashrc"), (Shell::Zsh, ".zshrc")] {
        let written = std::fs::write(
            daemon.user_home().join(file),
            "FROM_RC=yes; rc_function() { echo from rc; }; echo noise\n",
        );
        assert!(written.is_ok());
        let mut plain = daemon.session(shell);
        plain.run("echo \"[$FROM_RC]\"").exits(0).prints("[]\n", "");
        let mut with_rc = daemon.session_with(shell, json!({"rc": true}));
        with_rc.run("echo \"[$FROM_RC]\"; rc_function").exits(0).prints("[yes]\nfrom rc\n", "");
    }
    let written = std::fs::write(daemon.user_home().join(".bashrc"), "exit 7\n");
    assert!(written.is_ok());
    let mut connection = daemon.connect();
    let answer = connection.call(m::SessionCreate::NAME, json!({"shell": "bash", "rc": true}));
    assert!(
        answer.as_ref().is_ok() || answer.as_ref().is_err_and(|error| error["code"] != "INTERNAL_ERROR"),
        "{answer:?}"
    );
}

#[test]
fn unknown_sessions_are_told_as_such() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for unknown in ["s-00000000", "nosuchname", "", "S-00000000", "s-0000000", "../x"] {
        for (method, params) in [
            (m::SessionInfo::NAME, json!({"session_id": unknown})),
            (m::SessionDestroy::NAME, json!({"session_id": unknown})),
            (m::SessionRestart::NAME, json!({"session_id": unknown})),
            (m::ExecRun::NAME, json!({"session_id": unknown, "command": "true"})),
            (m::ExecStart::NAME, json!({"session_id": unknown, "command": "true"})),
            (m::ExecList::NAME, json!({"session_id": unknown})),
        ] {
            let message = connection.fails(method, params, "SESSION_NOT_FOUND");
            assert!(message.contains(unknown), "{message}");
        }
    }
}

/// Pages of code that are mapped in a process, in kilobytes.
fn mapped_code(pid: i32) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let (mut total, mut counts) = (0, false);
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [range, flags, ..] if range.contains('-') => counts = *flags == "r-xp",
            ["Rss:", kilobytes, "kB"] if counts => total += kilobytes.parse::<u64>().unwrap_or_default(),
            _ => {}
        }
    }
    total
}

#[test]
fn an_idle_session_lets_go_of_the_program_and_goes_on_when_it_is_used() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("x=kept");
    let host = session.host_pid();
    let in_use = mapped_code(host);
    let keeper = process::read(host).expect("the host lives").parent;
    assert!(mapped_code(keeper) < in_use / 2, "the keeper only waits");
    wait_until("an idle host needs less", GUARD, || mapped_code(host) < in_use / 2);
    session.run("echo $x").exits(0).prints("kept\n", "");
    assert_eq!(session.host_pid(), host);
}
