//! Mail between daemons with homes of their own, through a real broker.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Broker, Connection, Daemon, GUARD, Proxy, trl, wait_until};

/// A broker that knows the agents of a test, and their daemons, one agent each.
struct Team {
    broker: Broker,
    members: Vec<Member>,
}

struct Member {
    name: &'static str,
    address: String,
    daemon: Daemon,
    proxy: Proxy,
}

impl Team {
    fn of(names: &[&'static str]) -> Team {
        let mut broker = Broker::prepare();
        let output = Command::new(trl!())
            .env("TRL_HOME", broker.dir())
            .args(["relay", "init", "--dir"])
            .arg(broker.dir().join("relay"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        broker.configure("include \"relay/trl-relay.conf\"");
        broker.start();
        Team { broker, members: Vec::new() }.filled(names)
    }

    fn filled(mut self, names: &[&'static str]) -> Team {
        for name in names {
            let proxy = Proxy::to(self.broker.address());
            let daemon = Daemon::builder(trl!())
                .http()
                .env("TRL_ANNOUNCE", "on")
                .env("TRL_RELAY", proxy.url())
                .env("TRL_RELAY_CREDENTIALS", self.keys())
                .start();
            let made = daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
            let address = made["address"].as_str().unwrap().to_owned();
            self.members.push(Member { name, address, daemon, proxy });
        }
        // The broker does not know the new keys until it has read its config anew. The imports of a new
        // account work from the second reload on, and that one is missing is told.
        let admission = |made: &Value| made["credentials"][0]["admission"].clone();
        let (status, made) = self.init(&[]);
        assert_eq!((status, admission(&made)), (Some(1), json!("refused")));
        self.broker.reload();
        let (status, made) = self.init(&[]);
        assert_eq!((status, admission(&made)), (Some(1), json!("half_loaded")));
        self.broker.reload();
        let (status, made) = self.init(&[]);
        assert_eq!(status, Some(0), "{made}");
        self
    }

    fn keys(&self) -> PathBuf {
        self.broker.dir().join("relay/agents")
    }

    fn init(&self, more: &[&str]) -> (Option<i32>, Value) {
        let dir = self.broker.dir().join("relay");
        let mut arguments = vec!["--json", "relay", "init", "--dir", dir.to_str().unwrap()]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        for member in &self.members {
            arguments.extend(["--agent".to_owned(), format!("{}={}", member.name, member.address)]);
        }
        arguments.extend(["--url".to_owned(), self.broker.url()]);
        arguments.extend(more.iter().map(|&word| word.to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = self.members[0].daemon.trl(&arguments);
        let printed = serde_json::from_slice(&output.stdout);
        assert!(printed.is_ok(), "{output:?}");
        let printed = printed.unwrap();
        (output.status.code(), printed)
    }

    fn speak(&self, n: usize) -> Connection {
        let mut connection = self.members[n].daemon.connect();
        connection.set_guard(GUARD * 3);
        connection.ok(m::AgentUse::NAME, json!({"agent": self.members[n].name, "harness_session_id": "h"}));
        connection
    }

    /// Makes two of them contacts.
    fn introduce(&self, one: usize, other: usize) {
        let (mut asks, mut answers) = (self.speak(one), self.speak(other));
        let who = json!({"who": self.members[other].address});
        wait_until("an address that the directory knows", GUARD, || {
            let answer = asks.call(m::ContactRequest::NAME, who.clone());
            answer.is_ok_and(|row| row["state"] == "requested" || row["state"] == "accepted")
        });
        let contact = |connection: &mut Connection, address: &str, state: &str| {
            let list = connection.ok(m::ContactList::NAME, json!({}));
            list["contacts"]
                .as_array()
                .unwrap()
                .iter()
                .any(|row| row["address"] == address && row["state"] == state)
        };
        let (one, other) = (&self.members[one].address, &self.members[other].address);
        wait_until("a contact request", GUARD, || contact(&mut answers, one, "asking"));
        answers.ok(m::ContactAccept::NAME, json!({ "who": one }));
        wait_until("an accepted request", GUARD, || contact(&mut asks, other, "accepted"));
    }
}

fn take(connection: &mut Connection, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    while texts.len() < count {
        let inbox = connection.ok(m::MailInbox::NAME, json!({"wait_s": 40.0}));
        let found = inbox["messages"].as_array().unwrap();
        assert!(!found.is_empty(), "only {texts:?} came");
        texts.extend(found.iter().map(|message| message["text"].as_str().unwrap().to_owned()));
    }
    texts
}

fn send(connection: &mut Connection, to: &str, text: &str) -> String {
    let sent = connection.ok(m::MailSend::NAME, json!({"to": to, "text": text}));
    assert_eq!(sent["via"], "nats");
    sent["message_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn reaches(connection: &mut Connection, id: &str, state: &str) {
    wait_until(state, GUARD * 3, || {
        connection.ok(m::MailStatus::NAME, json!({"message_id": id}))["state"] == state
    });
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}

/// The whole of what a team meets in a bad week, one trouble after another.
#[test]
fn daemons_exchange_mail_through_every_trouble() {
    let mut team = Team::of(&["alice", "bob"]);
    team.introduce(0, 1);
    // Online, both ways, with receipts.
    let (mut alice, mut bob) = (team.speak(0), team.speak(1));
    let first = send(&mut alice, "bob", "0");
    assert_eq!(take(&mut bob, 1), ["0"]);
    bob.ok(m::MailInbox::NAME, json!({}));
    reaches(&mut alice, &first, "read");
    send(&mut bob, "alice", "back");
    assert_eq!(take(&mut alice, 1), ["back"]);

    // The recipient's daemon is away, killed in the middle of its work, and comes back.
    team.members[1].daemon.kill9();
    let waits = send(&mut alice, "bob", "1");
    send(&mut alice, "bob", "2");
    reaches(&mut alice, &waits, "relayed");
    team.members[1].daemon.restart();
    let mut bob = team.speak(1);
    assert_eq!(take(&mut bob, 2), numbered(1..3));
    bob.ok(m::MailInbox::NAME, json!({}));
    reaches(&mut alice, &waits, "read");

    // The broker is restarted, in order and by SIGKILL, while mail is on its way.
    for (from, hard) in [(3, false), (8, true)] {
        for n in from..from + 5 {
            send(&mut alice, "bob", &n.to_string());
            if n == from + 2 {
                if hard { team.broker.kill() } else { team.broker.stop() }
            }
        }
        team.broker.start();
        assert_eq!(take(&mut bob, 5), numbered(from..from + 5));
    }

    // The network is cut on the sender's side in mid-send, then on the reader's, and healed.
    for (side, from) in [(0, 13), (1, 18)] {
        for n in from..from + 5 {
            send(&mut alice, "bob", &n.to_string());
            if n == from + 2 {
                team.members[side].proxy.cut();
            }
        }
        team.members[side].proxy.heal();
        assert_eq!(take(&mut bob, 5), numbered(from..from + 5));
    }

    // The sender's daemon dies with mail that the broker never got.
    team.members[0].proxy.cut();
    let last = send(&mut alice, "bob", "23");
    team.members[0].daemon.kill9();
    team.members[0].proxy.heal();
    team.members[0].daemon.restart();
    assert_eq!(take(&mut bob, 1), ["23"]);
    bob.ok(m::MailInbox::NAME, json!({}));
    let mut alice = team.speak(0);
    reaches(&mut alice, &last, "read");
    let rest = bob.ok(m::MailInbox::NAME, json!({"wait_s": 0.3}));
    assert_eq!(rest["messages"], json!([]), "nothing comes twice");
}

#[test]
fn three_daemons_find_each_other_and_what_cannot_be_sent_is_said() {
    let team = Team::of(&["alice", "bob", "carol"]);
    team.introduce(0, 1);
    team.introduce(2, 1);
    let (mut alice, mut bob, mut carol) = (team.speak(0), team.speak(1), team.speak(2));
    send(&mut alice, "bob", "from alice");
    send(&mut carol, "bob", "from carol");
    let mut texts = take(&mut bob, 2);
    texts.sort();
    assert_eq!(texts, ["from alice", "from carol"]);
    send(&mut bob, "carol", "to carol");
    assert_eq!(take(&mut carol, 1), ["to carol"]);

    // Presence, as each daemon itself tells.
    let output = team.members[1].daemon.trl(&["--json", "agents", "--remote", "--as", "bob"]);
    let there: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = there["contacts"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{there}");
    for row in rows {
        assert_eq!(row["whereabouts"], "online", "{row}");
        assert!(!row["live_sessions"].as_array().unwrap().is_empty(), "{row}");
    }
    team.members[2].proxy.cut();
    let whereabouts = |bob: &mut Connection| {
        let there = bob.ok(m::ContactPresence::NAME, json!({}));
        let rows = there["contacts"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["who"] == "carol").unwrap()["whereabouts"].clone()
    };
    wait_until("the broker to miss carol", GUARD, || whereabouts(&mut bob) == "away");

    // Nobody's address is an error at once; so is a body over the limit.
    let nobody = "a".repeat(32);
    let fault = alice.call(m::ContactRequest::NAME, json!({ "who": nobody })).unwrap_err();
    assert_eq!(fault["code"], "AGENT_NOT_FOUND");
    let fault =
        alice.call(m::MailSend::NAME, json!({"to": "bob", "text": "x".repeat(300 * 1024)})).unwrap_err();
    assert_eq!(
        (&fault["code"], &fault["details"]["reason"]),
        (&json!("PAYLOAD_TOO_LARGE"), &json!("too_large"))
    );
    // Escapes blow this one up beyond what the broker carries.
    let fault =
        alice.call(m::MailSend::NAME, json!({"to": "bob", "text": "\u{1}".repeat(200 * 1024)})).unwrap_err();
    assert_eq!(fault["details"]["reason"], "too_large");

    // A mailbox is full at its quota, and its senders are told.
    // What was read is purged a little later; until then a smaller bound is refused.
    wait_until("there is room for a smaller bound", GUARD, || {
        team.init(&["--mailbox-parcels", "4", "--sender-parcels", "3"]).0 == Some(0)
    });
    let mut sent = Vec::new();
    for n in 0..4 {
        let id = send(&mut bob, "carol", &format!("{n}"));
        wait_until("the broker's word", GUARD, || {
            let state = bob.ok(m::MailStatus::NAME, json!({ "message_id": id }))["state"].clone();
            state == "relayed" || state == "failed"
        });
        sent.push(bob.ok(m::MailStatus::NAME, json!({"message_id": id})));
    }
    let failed: Vec<_> = sent.iter().filter(|status| status["state"] == "failed").collect();
    assert!(!failed.is_empty() && failed.iter().all(|status| status["reason"] == "mailbox_full"), "{sent:?}");

    // What is not named stays, and what waits is not thrown away for a smaller bound.
    let (status, again) = team.init(&[]);
    assert_eq!(status, Some(0), "{again}");
    assert!(again["streams"].as_array().unwrap().iter().all(|stream| stream["done"] == "found"), "{again}");
    assert_ne!(team.init(&["--sender-parcels", "1"]).0, Some(0));
}

/// What the broker had taken is published again when another broker, or an older state of it, answers: long before
/// the time after which a message without a receipt is published again anyway.
#[test]
fn a_broker_that_was_replaced_or_rolled_back_gets_again_what_it_lost() {
    let mut team = Team::of(&["alice", "bob"]);
    team.introduce(0, 1);
    let (mut alice, mut bob) = (team.speak(0), team.speak(1));
    send(&mut alice, "bob", "0");
    assert_eq!(take(&mut bob, 1), ["0"]);
    bob.ok(m::MailInbox::NAME, json!({}));
    for (n, replaced) in [(1, false), (2, true)] {
        // Bob is away, and the broker's disk is copied before the message comes.
        team.members[1].daemon.kill9();
        team.broker.stop();
        let (store, copy) = (team.broker.dir().join("store"), team.broker.dir().join("copy"));
        copy_dir(&store, &copy);
        team.broker.start();
        let id = send(&mut alice, "bob", &n.to_string());
        reaches(&mut alice, &id, "relayed");
        team.broker.stop();
        std::fs::remove_dir_all(&store).unwrap();
        if !replaced {
            std::fs::rename(&copy, &store).unwrap();
        }
        team.broker.start();
        if replaced {
            // An empty one, prepared as the first was.
            assert_eq!(team.init(&[]).0, Some(0));
            std::fs::remove_dir_all(&copy).unwrap();
        }
        team.members[1].daemon.restart();
        bob = team.speak(1);
        let inbox = bob.ok(m::MailInbox::NAME, json!({"wait_s": 25.0}));
        assert_eq!(inbox["messages"][0]["text"], n.to_string(), "replaced: {replaced}");
        bob.ok(m::MailInbox::NAME, json!({}));
        reaches(&mut alice, &id, "read");
    }
}

fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn the_relay_is_prepared_once_and_checked_from_both_sides() {
    let team = Team::of(&["alice"]);
    let alice = &team.members[0];
    // Again changes nothing, and says so.
    let (status, again) = team.init(&[]);
    assert_eq!((status, &again["config_changed"]), (Some(0), &json!(false)));
    assert!(again["streams"].as_array().unwrap().iter().all(|stream| stream["done"] == "found"), "{again}");
    let file = PathBuf::from(again["credentials"][0]["file"].as_str().unwrap());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let config = again["config"].as_str().unwrap();
    let seed = std::fs::read_to_string(&file).unwrap();
    assert!(!again.to_string().contains(seed.lines().last().unwrap()), "a seed was printed");
    assert!(config.contains("accounts") && !config.contains("$JS.API.>"), "{config}");

    // All is well.
    let check = |daemon: &Daemon| {
        let output = daemon.trl(&["--json", "relay", "check"]);
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = checked["agents"][0]["findings"].as_array().unwrap().clone();
        let wrong: Vec<String> = findings
            .iter()
            .filter(|finding| finding["ok"] == false)
            .map(|finding| {
                assert!(finding["remedy"].is_string(), "{finding}");
                finding["what"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(output.status.code(), Some(i32::from(!wrong.is_empty())));
        (findings, wrong)
    };
    let (findings, wrong) = check(&alice.daemon);
    assert!(findings.len() > 12 && wrong.is_empty(), "{wrong:?} of {findings:#?}");

    // A key that others can read is not used.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (findings, wrong) = check(&alice.daemon);
    assert_eq!(wrong, ["the credential's file is private"], "{findings:#?}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();

    // A broker that lets everybody in and everything through is found out.
    let open = Broker::open_to_all();
    let careless = Daemon::builder(trl!())
        .env("TRL_RELAY", open.url())
        .env("TRL_RELAY_CREDENTIALS", team.keys())
        .start();
    let made = careless.connect().ok(m::AgentCreate::NAME, json!({"name": "mallory"}));
    let key = team.keys().join(format!("{}.nk", made["address"].as_str().unwrap()));
    std::fs::copy(&file, &key).unwrap();
    let (findings, wrong) = check(&careless);
    for expected in [
        "a connection without a key is refused",
        "a forged sender is refused",
        "another's mailbox cannot be read",
    ] {
        assert!(wrong.iter().any(|what| what == expected), "{expected}: {findings:#?}");
    }
}

#[test]
fn access_is_granted_and_revoked_through_the_broker() {
    let team = Team::of(&["alice", "bob"]);
    team.introduce(0, 1);
    let (alice, bob) = (&team.members[0].daemon, &team.members[1].daemon);
    let mut reader = team.speak(0);
    let granted =
        bob.trl(&["--json", "runtimes", "grant", "alice", "--expires", "8h", "--limit", "open_files=256"]);
    assert!(granted.status.success(), "{granted:?}");
    let granted: Value = serde_json::from_slice(&granted.stdout).unwrap();
    let notice = take(&mut reader, 1).remove(0);
    assert!(notice.starts_with("bob (") && notice.contains("granted you the runtime bob@"), "{notice}");
    let name = notice.split_once("the runtime ").unwrap().1.split(' ').next().unwrap().to_owned();
    let files = || {
        let scopes = std::fs::read_dir(alice.home().join("state")).unwrap().flatten();
        let file = |scope: std::fs::DirEntry| scope.path().join(format!("runtimes/{name}.json"));
        scopes.map(file).filter(|file| file.exists()).collect::<Vec<_>>()
    };
    wait_until("the grant is stored", GUARD, || !files().is_empty());
    let stored: Value = serde_json::from_slice(&std::fs::read(&files()[0]).unwrap()).unwrap();
    assert_eq!(stored["grant_id"], granted["grant_id"]);
    assert_eq!(stored["granted_by"], json!(team.members[1].address));
    assert_eq!(stored["url"], format!("http://{}", bob.http().address));
    assert_eq!(std::fs::metadata(&files()[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let token = stored["token"].as_str().unwrap().to_owned();
    let http = trl_testkit::Http { token: token.clone(), ..bob.http() };
    let made = http.ok(m::SessionCreate::NAME, json!({"shell": "bash"}));
    assert_eq!(
        http.ok(m::SessionInfo::NAME, json!({"session_id": made["session_id"]}))["limits"]["open_files"],
        256
    );
    let ran = alice.trl(&["run", "--on", &name, "x=6; echo $((x * 7))"]);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(0), &b"42\n"[..]), "{ran:?}");
    let again = alice.trl(&["run", "--on", &name, "echo $x"]);
    assert_eq!(again.stdout, b"6\n", "{again:?}");
    let listed = alice.connect().ok(m::SessionList::NAME, json!({}))["sessions"].clone();
    let is_ours = |it: &&Value| it["name"].is_string();
    let far = listed.as_array().unwrap().iter().find(is_ours).unwrap();
    assert_eq!((listed.as_array().map(Vec::len), &far["runtime"]), (Some(2), &json!(name)), "{listed}");
    alice.connect().ok(m::SessionDestroy::NAME, json!({"session_id": far["session_id"]}));
    // The token is in that one file, and nowhere that people or models look.
    assert!(!notice.contains(&token));
    for daemon in [alice, bob] {
        assert!(!daemon.log().contains(&token));
    }
    assert!(!granted.to_string().contains(&token));

    let revoked = bob.trl(&["runtimes", "revoke", "alice"]);
    let said = String::from_utf8_lossy(&revoked.stdout).into_owned();
    assert!(revoked.status.success() && said.contains("1 session ended"), "{revoked:?}");
    let notice = take(&mut reader, 1).remove(0);
    assert!(notice.contains("revoked") && notice.contains(&name), "{notice}");
    wait_until("the file is removed", GUARD, || files().is_empty());
    assert_eq!(http.call(m::SessionList::NAME, json!({})).status, 401);
    let refused = alice.trl(&["run", "--on", &name, "true"]);
    assert!(!refused.status.success() && !refused.stderr.is_empty(), "{refused:?}");
    let listed = bob.trl(&["runtimes", "grants"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("revoked"), "{listed:?}");
}
