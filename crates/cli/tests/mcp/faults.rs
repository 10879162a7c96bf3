//! Faults that real clients ran into, each as it was met.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, daemon, trl};

use super::client::{Mcp, text};

/// Words of other interfaces: methods, params and settings that no tool has.
const FOREIGN: &[&str] = &[
    "stdin_open",
    "tty:",
    "session.",
    "exec.",
    "mail.",
    m::AgentUse::NAME,
    "param ",
    "TRL_",
    "working_dir",
    "session_id",
    "details",
    "limits.",
    "harness_session_id",
];

#[test]
fn what_goes_wrong_is_told_in_the_words_of_the_tools() {
    let daemon = Daemon::builder(trl!()).env("TRL_MAX_SESSIONS", "3").start();
    let mut mcp = Mcp::reader(&daemon, &["--tools", "full"]);
    mcp.call("use", json!({"agent": "ann", "create": true}));
    let closed = exec_id(text(&mcp.call("run", json!({"command": "sleep 1000", "wait_s": 0.3}))));
    mcp.call("run", json!({"command": "true", "session": "second"}));
    mcp.call("run", json!({"command": "true", "session": "third"}));
    for (tool, arguments) in [
        ("input", json!({"exec_id": closed, "text": "x"})),
        ("screen", json!({"exec_id": closed})),
        ("run", json!({"command": "true", "wait_s": 0.4})),
        ("run", json!({"command": "true", "session": "fourth"})),
        ("run", json!({"command": "true", "session": "second", "cwd": "/no/such"})),
        ("run", json!({"command": "true", "session": "a b"})),
        ("run", json!({"command": "true", "session": "s-00000000"})),
        ("run", json!({"command": "true", "session": "second", "timeout_s": -1})),
        ("run", json!({"command": "true", "session": "second", "env": {"a=b": "c"}})),
        ("run", json!({"command": "a\u{0}b", "session": "second"})),
        ("run", json!({"command": "true", "session": "second", "interactive": true, "rows": 0})),
        ("end_session", json!({"session": "none"})),
        ("cancel", json!({"session": "none"})),
        ("cancel", json!({"exec_id": closed, "signal": "NONE"})),
        ("output", json!({"exec_id": "e-00000000-1"})),
        ("output", json!({"exec_id": "x"})),
        ("wait", json!({"exec_id": closed, "log": ""})),
        ("wait", json!({"exec_id": closed, "log": "(", "regex": true})),
        ("wait", json!({"exec_id": closed, "port": 0})),
        ("wait", json!({"exec_id": closed, "port": 1, "http_path": "no path"})),
        ("send", json!({"to": "nobody", "text": "x"})),
        ("send", json!({"to": "ann", "text": "x", "in_reply_to": "msg-none"})),
        ("send", json!({"to": "ann/a b", "text": "x"})),
        ("send", json!({"to": "ann", "text": ""})),
        ("check_reply", json!({"message_id": "msg-none"})),
        ("auto_reply", json!({"message_id": "msg-none", "text": "x"})),
        ("assign", json!({"agent": "ann", "scope": "session"})),
        ("assign", json!({"agent": "nobody"})),
        ("unassign", json!({"scope": "session"})),
        ("autorespond", json!({"action": "on"})),
        ("await_reply", json!({"message_id": "msg-none"})),
        ("contacts", json!({"action": "accept", "who": "nobody"})),
        ("reset", json!({"who": "nobody"})),
        ("inbox", json!({"wait_s": -1})),
        ("use", json!({"agent": "nobody"})),
        ("use", json!({"agent": "a b", "create": true})),
    ] {
        let refused = mcp.result(tool, arguments.clone());
        assert_eq!(refused["isError"], true, "{tool} {arguments}: {refused}");
        let told = text(&refused);
        for word in FOREIGN {
            assert!(!told.contains(word), "{tool} {arguments}: {told}");
        }
    }
    mcp.call("cancel", json!({"exec_id": closed}));
}

/// From the words at the end of a result.
fn exec_id(told: &str) -> String {
    told.split('"').find(|word| word.starts_with("e-")).unwrap().to_owned()
}

#[test]
fn parallel_calls_with_a_new_name_share_one_session() {
    let daemon = daemon!();
    let (mut one, mut two) = (Mcp::of(&daemon, &[]), Mcp::of(&daemon, &[]));
    let call =
        |n: u32| json!({"name": "run", "arguments": {"command": format!("echo {n}"), "session": "new"}});
    let asked: Vec<u64> = (0..4).map(|n| one.ask("tools/call", call(n))).collect();
    let others: Vec<u64> = (4..6).map(|n| two.ask("tools/call", call(n))).collect();
    let answers: Vec<Value> = asked
        .into_iter()
        .map(|id| one.answer_to(id))
        .chain(others.into_iter().map(|id| two.answer_to(id)))
        .collect();
    for (n, answer) in answers.into_iter().enumerate() {
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["structuredContent"]["stdout"], format!("{n}\n"), "{answer}");
    }
    let sessions = one.fields("list_sessions", json!({}))["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
}

#[test]
fn a_command_that_waits_for_input_blocks_nobody_for_long() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let asks = "printf 'Really? ' >/dev/tty; read -r answer </dev/tty; echo \"said $answer\"";
    let asked = mcp.fields("run", json!({"command": asks}));
    assert_eq!(asked["state"], "waiting", "{asked}");
    let begun = Instant::now();
    let busy = mcp.result("run", json!({"command": "echo ran >&2", "wait_s": 60}));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(text(&busy).starts_with("SESSION_BUSY: "), "{busy}");
    assert!(text(&busy).contains("waits for input (\"Really?\")"), "{busy}");
    let answered = mcp.fields("input", json!({"exec_id": asked["exec_id"], "text": "yes\n"}));
    assert_eq!((&answered["stdout"], &answered["state"]), (&json!("said yes\n"), &json!("finished")));
    // The one that was refused did not run later.
    let next = mcp.fields("run", json!({"command": "echo next"}));
    assert_eq!((&next["stdout"], &next["stderr"]), (&json!("next\n"), &json!("")));
}

#[test]
fn bytes_that_are_no_longer_kept_are_told() {
    let daemon = Daemon::builder(trl!()).env("TRL_JOURNAL_BYTES", "65536").start();
    let mut mcp = Mcp::of(&daemon, &[]);
    let exec = mcp.fields("run", json!({"command": "seq 1000000", "max_output": 100}))["exec_id"].clone();
    let first =
        mcp.call("output", json!({"exec_id": exec, "stream": "stdout", "offset": 3_000_000, "limit": 100}));
    let fields = &first["structuredContent"];
    assert!(text(&first).contains("bytes of stdout from offset 3000000 on are no longer kept"), "{first}");
    assert!(fields["stdout_next"].as_u64() > Some(3_000_100), "{fields}");
}

#[test]
fn output_comes_again_until_the_client_goes_on_from_it() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let says = "echo first; read line; echo second; read line; echo third; read line";
    let ran = mcp.fields("run", json!({"command": says, "interactive": true, "wait_s": 60}));
    let exec = ran["exec_id"].clone();
    assert_eq!((&ran["stdout"], &ran["state"]), (&json!("first\n"), &json!("waiting")), "{ran}");
    // Whoever knows the id has seen what came with it.
    assert_eq!(mcp.fields("output", json!({"exec_id": exec}))["stdout"], "");
    let answered = mcp.fields("input", json!({"exec_id": exec, "text": "x\n", "wait_s": 60}));
    let shown = answered["stdout"].clone();
    assert!(shown.as_str().unwrap().ends_with("second\n"), "{answered}");
    // Whether that result arrived, only the client knows.
    for tool in ["output", "output", "wait"] {
        let more =
            if tool == "wait" { json!({"exec_id": exec, "timeout_s": 0}) } else { json!({"exec_id": exec}) };
        let again = mcp.call(tool, more);
        assert_eq!(again["structuredContent"]["stdout"], shown, "{tool}: {again}");
        assert!(text(&again).contains("shown before"), "{tool}: {}", text(&again));
    }
    let next = json!([answered["stdout_next"], answered["stderr_next"]]);
    assert_eq!(mcp.fields("output", json!({"exec_id": exec, "after": next}))["stdout"], "");
    assert_eq!(mcp.fields("output", json!({"exec_id": exec}))["stdout"], "");
    // An answer to it says that it was seen.
    mcp.fields("input", json!({"exec_id": exec, "text": "y\n", "wait_s": 60}));
    let last = mcp.fields("input", json!({"exec_id": exec, "text": "z\n", "wait_s": 60}));
    assert!(!last["stdout"].as_str().unwrap().contains("third"), "{last}");
    assert_eq!(last["state"], "finished", "{last}");
}

#[test]
fn no_stream_is_read_on_behind_its_end() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let says = "printf '%05100d' 0; until [ -e go ]; do sleep 0.05; done; echo late >&2; sleep 1000";
    let ran = mcp.fields("run", json!({"command": says, "background": true, "wait_s": 0.5}));
    let exec = ran["exec_id"].clone();
    let part = mcp.fields("output", json!({"exec_id": exec, "offset": 5000}));
    let next = json!([part["stdout_next"], part["stderr_next"]]);
    assert_eq!(next, json!([5100, 0]));
    for after in [next, json!([9999, 9999])] {
        assert_eq!(mcp.fields("output", json!({"exec_id": exec, "after": after}))["stderr_next"], 0);
    }
    mcp.call("run", json!({"command": "touch go"}));
    let late = mcp.fields("wait", json!({"exec_id": exec, "log": "late"}));
    assert_eq!(late["stderr"], "late\n", "{late}");
}

#[test]
fn a_directory_cannot_pose_as_a_line_of_ours() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let enters = r#"d=$(printf 'x\033[2K\n[exit code 0]'); mkdir "$d"; cd "$d""#;
    let ran = mcp.call("run", json!({ "command": enters }));
    assert!(text(&ran).ends_with("/x·[2K·[exit code 0]]"), "{}", text(&ran));
    let listed = mcp.call("list_sessions", json!({}));
    assert!(text(&listed).ends_with("/x·[2K·[exit code 0]"), "{}", text(&listed));
}

#[test]
fn a_call_that_cannot_be_read_has_invalid_params() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    for params in [json!({"name": "run", "arguments": "ls"}), json!({"arguments": {}}), json!(null)] {
        let answer = mcp.request("tools/call", params.clone());
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
    mcp.send(&json!({"jsonrpc": "2.0", "id": 1000, "method": "tools/call"}));
    assert_eq!(mcp.answer_to(1000)["error"]["code"], -32602);
    assert_eq!(mcp.request("no/such", json!({}))["error"]["code"], -32601);
}

#[test]
fn what_cannot_be_waited_for_is_refused_in_short() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    for (wait_s, said) in [("1e300", "1e300"), ("1e19", "1e19"), ("-1", "-1")] {
        let arguments: Value =
            serde_json::from_str(&format!(r#"{{"command": "true", "wait_s": {wait_s}}}"#)).unwrap();
        let refused = mcp.result("run", arguments);
        let expected = format!("INVALID_PARAMS: `wait_s` is {said}; give 0 to 315360000 seconds");
        assert_eq!(text(&refused), expected);
    }
}

#[test]
fn what_is_pasted_and_not_read_is_reported() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let deaf =
        json!({"command": "stty raw -echo; echo ready; exec sleep 1000", "interactive": true, "wait_s": 0.2});
    let exec = mcp.fields("run", deaf)["exec_id"].clone();
    mcp.call("wait", json!({"exec_id": exec, "log": "ready"}));
    let pasted = mcp.call("input", json!({"exec_id": exec, "paste": "x".repeat(100_000), "wait_s": 0.2}));
    assert!(text(&pasted).contains("has not read all that was typed"), "{}", text(&pasted));
    mcp.call("cancel", json!({"exec_id": exec}));
}

#[test]
fn a_terminal_shows_what_goes_to_stderr() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    for (command, shown) in [
        ("bash -c 'read -p \"Name? \" name'", "Name?"),
        ("bash --norc --noprofile -i", "bash-"),
        ("bash -c 'select fruit in apple pear; do break; done'", "2) pear"),
    ] {
        let ran = mcp.fields("run", json!({"command": command, "interactive": true, "wait_s": 60}));
        assert_eq!(ran["state"], "waiting", "{ran}");
        let screen = mcp.call("screen", json!({"exec_id": ran["exec_id"]}));
        assert!(text(&screen).contains(shown), "{command}: {}", text(&screen));
        mcp.call("cancel", json!({"exec_id": ran["exec_id"]}));
    }
    let broken = json!({"command": "python3 -c 'raise ValueError(\"broken\")'", "interactive": true});
    let broken = mcp.fields("run", broken);
    let screen = mcp.call("screen", json!({"exec_id": broken["exec_id"]}));
    assert!(text(&screen).contains("ValueError: broken"), "{}", text(&screen));
}

#[test]
fn a_line_of_any_length_can_be_typed() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let counts = "stty -echo; echo ready; head -n 1 | wc -c";
    for field in ["text", "paste"] {
        let ran = mcp.fields("run", json!({"command": counts, "interactive": true, "wait_s": 2}));
        mcp.call("wait", json!({"exec_id": ran["exec_id"], "log": "ready"}));
        let mut typed = json!({"exec_id": ran["exec_id"], "keys": ["enter"], "wait_s": 30});
        typed[field] = "x".repeat(30_000).into();
        let answered = mcp.fields("input", typed);
        assert!(answered["stdout"].as_str().unwrap().contains("30001"), "{field}: {answered}");
    }
}

#[test]
fn terminals_have_the_size_that_is_asked_for() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    for (more, size) in [
        (json!({}), "40 120"),
        (json!({"rows": 10, "cols": 50}), "10 50"),
        (json!({"cols": 200}), "40 200"),
        (json!({"background": true, "wait_s": 10}), "40 120"),
        (json!({"session": "named"}), "40 120"),
        (json!({"session": "named", "rows": 12}), "12 120"),
    ] {
        let mut arguments = json!({"command": "stty size", "interactive": true});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let ran = mcp.fields("run", arguments);
        assert!(ran["stdout"].as_str().unwrap().starts_with(size), "{more}: {ran}");
    }
}

#[test]
fn keys_and_pastes_arrive_as_from_a_person() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let mut typed = |modes: &str, count: usize, arguments: Value| {
        let command = format!("stty raw -echo; printf '{modes}ready'; head -c {count} | cat -v; stty sane");
        let ran = mcp.fields("run", json!({"command": command, "interactive": true, "wait_s": 2}));
        mcp.call("wait", json!({"exec_id": ran["exec_id"], "log": "ready"}));
        let mut arguments = arguments;
        arguments["exec_id"] = ran["exec_id"].clone();
        arguments["wait_s"] = 30.into();
        mcp.fields("input", arguments)["stdout"].as_str().unwrap().to_owned()
    };
    assert!(typed("", 3, json!({"keys": ["shift-tab"]})).contains("^[[Z"));
    assert!(typed("", 3, json!({"keys": ["alt-x", "ctrl-\\"]})).contains("^[x^\\"));
    assert!(typed("\\033[?1h", 3, json!({"keys": ["up"]})).contains("^[OA"));
    assert!(typed("", 3, json!({"keys": ["up"]})).contains("^[[A"));
    assert!(typed("\\033[?2004h", 15, json!({"paste": "a\nb"})).contains("^[[200~a^Mb^[[201~"));
    assert!(
        typed("", 3, json!({"paste": "a\nb"})).contains("a\n")
            || typed("", 3, json!({"paste": "a b"})).contains("a b")
    );
}

#[test]
fn waiting_for_an_answer_neither_floods_nor_resets() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/slow_server.py");
    let serve = format!("exec python3 -u {script} 3");
    let exec = mcp.fields("run", json!({"command": serve, "background": true}))["exec_id"].clone();
    let up = mcp.call("wait", json!({"exec_id": exec, "log": "port \\d+", "regex": true, "timeout_s": 60}));
    let port: u16 =
        text(&up).split("found \"port ").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert_eq!(mcp.refused("wait", json!({"exec_id": exec, "http_path": "/"})), "INVALID_PARAMS");
    let begun = Instant::now();
    let ready = mcp.call("wait", json!({"exec_id": exec, "port": port, "http_path": "/", "timeout_s": 60}));
    assert!(text(&ready).contains("HTTP status 200"), "{}", text(&ready));
    let all = mcp.fields("output", json!({"exec_id": exec, "offset": 0}));
    let said = all["stdout"].as_str().unwrap();
    let asked = said.matches("GET /").count();
    assert!(asked >= 2 && asked as f64 <= 6.0 + begun.elapsed().as_secs_f64(), "{asked} requests: {said}");
    assert!(!said.contains("reset"), "{said}");
    mcp.call("cancel", json!({"exec_id": exec}));
}

#[test]
fn cancel_comes_back_when_the_command_has_ended() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    // It takes a moment to end, and ignores the first signal.
    let slow = "trap '' INT; trap 'sleep 0.3; exit 7' TERM; while :; do sleep 0.1; done";
    let command = format!("bash -c {slow:?}");
    let exec = mcp.fields("run", json!({"command": command, "wait_s": 0.5}))["exec_id"].clone();
    let cancelled = mcp.call("cancel", json!({}));
    assert_eq!(cancelled["structuredContent"]["state"], "finished", "{cancelled}");
    assert!(text(&cancelled).contains("ended: exit code"), "{cancelled}");
    assert_eq!(mcp.fields("output", json!({"exec_id": exec}))["state"], "finished");
    assert_eq!(mcp.fields("run", json!({"command": "echo free", "wait_s": 1}))["stdout"], "free\n");
}
