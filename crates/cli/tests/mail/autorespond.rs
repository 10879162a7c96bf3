//! Automatic answers by a whole daemon: confined to their one power, and never in circles.
#![cfg(target_os = "linux")]
#![expect(clippy::panic, reason = "what the tests share is test code too")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Connection, Daemon, GUARD, daemon, trl, wait_until};

use crate::isolation::outside::{NOBODY, Outside};

/// An agent that answers with a command and is not there itself.
fn responder(daemon: &Daemon, name: &str, mut params: Value) {
    let mut connection = daemon.connect();
    connection.ok(m::AgentCreate::NAME, json!({ "name": name }));
    connection.ok(m::AgentUse::NAME, json!({ "agent": name }));
    params["on"] = json!(true);
    let on = connection.ok(m::MailAutorespond::NAME, params);
    assert_eq!((&on["on"], &on["sandbox"]), (&json!(true), &json!("namespaces+landlock+seccomp")));
    connection.ok(m::AgentRelease::NAME, json!({}));
}

fn asker(daemon: &Daemon) -> Connection {
    let mut connection = daemon.connect();
    connection.ok(m::AgentCreate::NAME, json!({"name": "asker"}));
    connection.ok(m::AgentUse::NAME, json!({"agent": "asker"}));
    connection
}

fn answer(asker: &mut Connection, to: &str) -> String {
    let heard = asker.ok(m::MailSendAndWait::NAME, json!({"to": to, "text": "hello", "timeout_s": 60.0}));
    heard["reply"]["text"].as_str().unwrap_or_else(|| panic!("{heard}")).to_owned()
}

#[test]
fn the_command_can_answer_and_nothing_else() {
    let daemon = daemon!();
    let mut asker = asker(&daemon);
    let secret = daemon.user_home().join("secret");
    std::fs::write(&secret, "the secret").unwrap();
    let named = daemon.user_home().join("named");
    std::fs::write(&named, "what it was given").unwrap();
    let socket = daemon.socket();
    let tries = [
        ("read", format!("cat {} 2>/dev/null || echo refused", secret.display()), "refused"),
        (
            "keys",
            format!("ls {} 2>/dev/null || echo refused", daemon.home().join("state/mail").display()),
            "refused",
        ),
        ("write", format!("echo x > {} 2>/dev/null || echo refused", secret.display()), "refused"),
        ("own", "echo mine > note && cat note".to_owned(), "mine"),
        (
            "daemon",
            format!(
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")' 2>/dev/null || echo refused",
                socket.display()
            ),
            "refused",
        ),
        (
            "network",
            "(echo > /dev/tcp/127.0.0.1/1) 2>&1 | grep -om1 'not permitted' | head -n1".to_owned(),
            "not permitted",
        ),
        ("signal", format!("kill -0 {} 2>/dev/null || echo refused", daemon.pid()), "refused"),
        // Whatever stays behind is found when the daemon of this test is gone.
        ("leave", "setsid sleep 1000 >/dev/null 2>&1 & echo left".to_owned(), "left"),
        (
            "closed",
            "mkdir -m 0 closed && mkdir -p open/deep && chmod 0 . 2>/dev/null; echo made".to_owned(),
            "made",
        ),
        ("message", "grep -o '\"text\":\"hello\"'".to_owned(), "\"text\":\"hello\""),
    ];
    for (name, script, expected) in tries {
        responder(&daemon, name, json!({"command": ["bash", "-c", script]}));
        assert_eq!(answer(&mut asker, name), expected, "{name}");
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "the secret");
    responder(&daemon, "given", json!({"command": ["cat", named]}));
    assert_eq!(answer(&mut asker, "given"), "what it was given");
    // With leave to use the network, a port that nobody listens on refuses; the sandbox does not.
    let knock = "(echo > /dev/tcp/127.0.0.1/1) 2>&1 | grep -om1 'Connection refused' | head -n1";
    responder(&daemon, "online", json!({"command": ["bash", "-c", knock], "network": true}));
    assert_eq!(answer(&mut asker, "online"), "Connection refused");
    let dirs = std::fs::read_dir(daemon.home().join("state/mail/auto")).unwrap().count();
    assert_eq!(dirs, 0, "directories of answers stayed");
}

/// Every attempt of the escape suite, by a root's daemon and by an ordinary user's.
fn no_attempt_succeeds(daemon: &Daemon) {
    let mut asker = asker(daemon);
    let outside = Outside::around(daemon);
    let program = outside.program().display().to_string();
    let words = [vec![program.clone(), "all".to_owned()], outside.words()].concat();
    responder(daemon, "attacker", json!({"command": words}));
    let text = answer(&mut asker, "attacker");
    let tried = text.lines().count();
    assert!(tried >= 100, "{tried} attempts: {text}");
    let escaped: Vec<&str> = text.lines().filter(|line| !line.ends_with(" held")).collect();
    assert!(escaped.is_empty(), "{escaped:?}");
    assert!(outside.is_untouched());
    // With leave to use the network it still reaches nothing but the network.
    let words = [vec![program, "all".to_owned()], outside.words()].concat();
    responder(daemon, "online-attacker", json!({"command": words, "network": true}));
    let text = answer(&mut asker, "online-attacker");
    let escaped: Vec<&str> = text.lines().filter(|line| !line.ends_with(" held")).collect();
    let network =
        ["tcp_loopback", "tcp_loopback_other", "tcp_any", "tcp_loopback_6", "udp_loopback", "dns_server"];
    let is_network = |line: &&str| network.iter().any(|name| line.starts_with(name));
    assert!(escaped.iter().all(is_network), "{escaped:?}");
}

#[test]
fn no_attempt_to_get_out_succeeds() {
    no_attempt_succeeds(&daemon!());
}

#[test]
fn no_attempt_to_get_out_of_an_ordinary_users_succeeds() {
    no_attempt_succeeds(&Daemon::builder(trl!()).as_user(NOBODY).start());
}

/// More processes or memory than one answer needs are refused.
#[test]
fn a_command_has_limits() {
    let daemon = Daemon::builder(trl!()).as_user(NOBODY).start();
    let mut asker = asker(&daemon);
    let forks = "n=0; while [ $n -lt 200 ]; do sleep 100 & n=$((n+1)); done 2>/dev/null; echo all";
    responder(&daemon, "forks", json!({"command": ["bash", "-c", forks]}));
    asker.ok(m::MailSend::NAME, json!({"to": "forks", "text": "hello"}));
    let memory = "x=$(head -c 3000000000 /dev/zero | tr '\\0' a); echo got ${#x}";
    responder(
        &daemon,
        "memory",
        json!({"command": ["bash", "-c", format!("({memory}) 2>/dev/null || echo refused")]}),
    );
    assert_eq!(answer(&mut asker, "memory"), "refused");
    let mut connection = daemon.connect();
    connection.ok(m::AgentUse::NAME, json!({"agent": "forks"}));
    wait_until("forks are refused", GUARD, || {
        connection.ok(m::MailDeadLetters::NAME, json!({}))["dead_letters"] != json!([])
    });
}

/// The kernel exempts root from the usual limit on processes; another one takes its place.
#[test]
fn a_command_of_root_has_a_limit_on_processes() {
    let daemon = daemon!();
    if !crate::isolation::limits::has_groups(&daemon) {
        return;
    }
    let forks = "import os, time\n\
                 try:\n \
                  for n in range(200):\n  \
                   if os.fork() == 0:\n   \
                    time.sleep(1000)\n\
                 except OSError: print('refused')";
    let mut asker = asker(&daemon);
    responder(&daemon, "forks", json!({"command": ["python3", "-c", forks]}));
    assert_eq!(answer(&mut asker, "forks"), "refused");
}

#[test]
fn a_command_that_fails_is_a_dead_letter_with_its_last_words() {
    let daemon = daemon!();
    let mut asker = asker(&daemon);
    responder(&daemon, "broken", json!({"command": "echo 'out of \u{1b}[31mpaper' >&2; exit 3"}));
    responder(&daemon, "absent", json!({"command": ["no-such-program"]}));
    asker.ok(m::MailSend::NAME, json!({"to": "broken", "text": "hello"}));
    asker.ok(m::MailSend::NAME, json!({"to": "absent", "text": "hello"}));
    responder(&daemon, "bell", json!({"command": "echo ding"}));
    assert_eq!(answer(&mut asker, "bell"), "ding");
    for (name, words) in [("broken", "out of \\u{1b}[31mpaper"), ("absent", "could not be started")] {
        let mut connection = daemon.connect();
        connection.ok(m::AgentUse::NAME, json!({ "agent": name }));
        let mut found = Value::Null;
        wait_until("there is a dead letter", GUARD, || {
            found = connection.ok(m::MailDeadLetters::NAME, json!({}));
            found["dead_letters"] != json!([])
        });
        let letter = &found["dead_letters"][0];
        assert!(letter["reason"].as_str().unwrap().contains(words), "{letter}");
        assert_eq!(letter["from"], "asker");
    }
}

/// Three agents that answer whatever comes, each written to by the next; nobody is there to stop them.
#[test]
fn three_agents_that_answer_everything_stop_by_themselves() {
    let daemon = daemon!();
    let mut asker = asker(&daemon);
    let names = ["ann", "ben", "cat"];
    for name in names {
        responder(&daemon, name, json!({"command": "echo and you?"}));
    }
    for (n, name) in names.into_iter().enumerate() {
        let mut connection = daemon.connect();
        connection.ok(m::AgentUse::NAME, json!({ "agent": name }));
        connection.ok(m::MailSend::NAME, json!({"to": names[(n + 1) % 3], "text": "how are you?"}));
        connection.ok(m::AgentRelease::NAME, json!({}));
    }
    // An answer to who asks last comes when everything before it was looked at; twice, since an
    // answer to an answer would have come in between.
    for _ in 0..2 {
        for name in names {
            assert_eq!(answer(&mut asker, name), "and you?");
        }
    }
    for name in names {
        let mut connection = daemon.connect();
        connection.ok(m::AgentUse::NAME, json!({ "agent": name, "label": "looks" }));
        let status = connection.ok(m::MailAutorespond::NAME, json!({}));
        // One to the neighbour, two to the asker; none to an answer.
        assert_eq!(status["answered_today"], 3, "{name}: {status}");
    }
}
