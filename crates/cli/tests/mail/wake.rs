//! Waking agents that sit idle at a terminal when mail comes for them.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Connection, Daemon, GUARD, Session, Shell, daemon, wait_until};

const TRIGGER: &str = ": you have new mail, read it with the inbox tool or with trl inbox";

/// An agent with a program on a terminal of ours; only a fake one, that tells what it is asked.
struct Seated {
    session: Session,
    exec_id: String,
    agent: Connection,
}

impl Seated {
    fn new(daemon: &Daemon, name: &str, program: &str, shows: &str) -> Seated {
        let mut session = daemon.session(Shell::Bash);
        let exec_id =
            session.start(json!({"command": program, "tty": true, "background": false, "timeout_s": 0}));
        daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
        let mut agent = daemon.connect();
        agent.ok(m::AgentUse::NAME, json!({"agent": name, "terminal": session.id}));
        let mut seated = Seated { session, exec_id, agent };
        seated.until_seen(shows);
        seated
    }

    fn screen(&mut self) -> String {
        let screen: Value = self.session.connection.ok(m::ExecScreen::NAME, json!({"exec_id": self.exec_id}));
        let lines = screen["lines"].as_array().into_iter().flatten();
        lines.map(|line| line.as_str().unwrap_or_default().to_owned() + "\n").collect()
    }

    #[track_caller]
    fn until_seen(&mut self, text: &str) {
        let mut last = String::new();
        wait_until(&format!("{text:?} on the screen"), GUARD, || {
            last = self.screen();
            last.contains(text)
        });
    }
}

/// Asks for a line behind a prompt, and tells each.
const ASKS: &str = r#"while printf '> '; read -r line; do echo "asked <$line>"; done"#;

#[test]
fn an_idle_agent_is_told_by_one_line_that_has_nothing_of_the_mail() {
    let daemon = daemon!();
    let mut bob = Seated::new(&daemon, "bob", ASKS, ">");
    daemon.connect().ok(m::AgentCreate::NAME, json!({"name": "alice"}));
    let mut alice = daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    alice.ok(m::MailSend::NAME, json!({"to": "bob", "text": "rm -rf the secret plan"}));
    bob.until_seen(&format!("asked <{TRIGGER}>"));
    assert!(!bob.screen().contains("secret"), "{}", bob.screen());
    let inbox = bob.agent.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}));
    assert_eq!(inbox["messages"][0]["text"], "rm -rf the secret plan");
    assert_eq!(bob.screen().matches("asked").count(), 1, "{}", bob.screen());
}

#[test]
fn mail_that_is_held_wakes_whoever_last_spoke_from_a_terminal() {
    let daemon = daemon!();
    let mut bob = Seated::new(&daemon, "bob", ASKS, ">");
    // Its shell lives on, but it holds no connection and sends no sign of life.
    let pid = bob.session.created["pid"].clone();
    bob.agent.ok(m::AgentUse::NAME, json!({"agent": "bob", "terminal": bob.session.id, "pid": pid}));
    drop(std::mem::replace(&mut bob.agent, daemon.connect()));
    daemon.connect().ok(m::AgentCreate::NAME, json!({"name": "alice"}));
    let mut alice = daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    alice.ok(m::MailSend::NAME, json!({"to": "bob/reviewer", "text": "for somebody else"}));
    alice.ok(m::MailSend::NAME, json!({"to": "bob", "text": "hello"}));
    bob.until_seen(&format!("asked <{TRIGGER}>"));
}

#[test]
fn whoever_works_or_has_begun_to_type_or_is_a_shell_is_left_alone() {
    let daemon = daemon!();
    let typed = r#"printf '> half a sen'; read -r line; echo "asked <$line>""#;
    let password = r#"printf 'Password: '; read -r line; echo "asked <$line>""#;
    let shell = r#"printf 'user@host:~$ '; read -r line; echo "asked <$line>""#;
    let works = r#"n=0; while n=$((n + 1)); do printf '\rworking %d ' $n; sleep 0.2; done"#;
    let mut left_alone = [
        Seated::new(&daemon, "typist", typed, "half a sen"),
        Seated::new(&daemon, "guard", password, "Password:"),
        Seated::new(&daemon, "worker", works, "working"),
        Seated::new(&daemon, "shell", shell, "host:~$"),
    ];
    let mut bob = Seated::new(&daemon, "bob", ASKS, ">");
    daemon.connect().ok(m::AgentCreate::NAME, json!({"name": "alice"}));
    let mut alice = daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    for name in ["typist", "guard", "worker", "shell", "bob"] {
        alice.ok(m::MailSend::NAME, json!({"to": name, "text": "hello"}));
    }
    bob.until_seen(&format!("asked <{TRIGGER}>"));
    // Whoever is busy is looked at again and again; the second time bob is woken, all were.
    bob.agent.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}));
    alice.ok(m::MailSend::NAME, json!({"to": "bob", "text": "once more"}));
    wait_until("bob is told again", GUARD, || bob.screen().matches("asked").count() == 2);
    for seated in &mut left_alone {
        assert!(!seated.screen().contains("you have new mail"), "{}", seated.screen());
    }
}
