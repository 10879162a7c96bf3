//! A hermetic post office: throw-away homes, a clock that tests move, short ways to ask.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses its own part"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_mail::clock::{Clock, ManualClock};
use trl_mail::presence::{Processes, SystemProcesses};
use trl_mail::relay::{EmbeddedLimits, EmbeddedRelay};
use trl_mail::steps::Steps;
use trl_mail::{Caller, Mail, MailConfig};
use trl_protocol::{Fault, Request};

pub const START_MS: i64 = 1_800_000_000_000;

pub struct Office {
    pub home: TempDir,
    pub clock: Arc<ManualClock>,
    pub relay: EmbeddedRelay,
    pub mail: Option<Mail>,
    pub config: MailConfig,
}

pub fn relay_in(dir: &Path) -> EmbeddedRelay {
    EmbeddedRelay::open(dir, EmbeddedLimits::default(), Steps::default()).unwrap()
}

impl Office {
    pub fn open() -> Office {
        Office::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut MailConfig)) -> Office {
        let home = tempfile::tempdir().unwrap();
        let relay = relay_in(&home.path().join("relay"));
        Office::beside(home, relay, Arc::new(ManualClock::at(START_MS)), change)
    }

    /// On a relay with limits of its own.
    pub fn within(limits: EmbeddedLimits) -> Office {
        let home = tempfile::tempdir().unwrap();
        let relay = EmbeddedRelay::open(&home.path().join("relay"), limits, Steps::default()).unwrap();
        Office::beside(home, relay, Arc::new(ManualClock::at(START_MS)), |_| {})
    }

    /// A second daemon with its own home on the same relay.
    pub fn neighbour(&self) -> Office {
        Office::beside(tempfile::tempdir().unwrap(), self.relay.clone(), Arc::clone(&self.clock), |_| {})
    }

    /// The same with other bounds.
    pub fn neighbour_with(&self, change: impl FnOnce(&mut MailConfig)) -> Office {
        Office::beside(tempfile::tempdir().unwrap(), self.relay.clone(), Arc::clone(&self.clock), change)
    }

    fn beside(
        home: TempDir,
        relay: EmbeddedRelay,
        clock: Arc<ManualClock>,
        change: impl FnOnce(&mut MailConfig),
    ) -> Office {
        let mut config = MailConfig::new(home.path().join("mail"));
        change(&mut config);
        let mut office = Office { home, clock, relay, mail: None, config };
        office.start();
        office
    }

    pub fn start(&mut self) {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let processes: Arc<dyn Processes> = Arc::new(SystemProcesses);
        let mail = Mail::open(self.config.clone(), clock, processes, Arc::new(self.relay.clone())).unwrap();
        self.mail = Some(mail);
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    pub async fn stop(&mut self) {
        if let Some(mail) = self.mail.take() {
            mail.close().await.unwrap();
        }
    }

    pub fn mail(&self) -> &Mail {
        self.mail.as_ref().unwrap()
    }

    pub async fn ask(&self, connection: u64, method: &str, params: Value) -> Result<Value, Fault> {
        ask(self.mail(), Caller::on(connection), method, params).await
    }

    /// Asks and expects an answer.
    pub async fn get(&self, connection: u64, method: &str, params: Value) -> Value {
        self.ask(connection, method, params).await.unwrap_or_else(|fault| panic!("{method}: {fault}"))
    }

    /// Makes agents, each used on the connection of its number, 1 first.
    pub async fn agents(&self, names: &[&str]) {
        for (n, name) in names.iter().enumerate() {
            self.get(0, m::AgentCreate::NAME, json!({ "name": name })).await;
            self.get(n as u64 + 1, m::AgentUse::NAME, json!({ "agent": name })).await;
        }
    }

    pub async fn send(&self, connection: u64, params: Value) -> String {
        let sent = self.get(connection, m::MailSend::NAME, params).await;
        sent["message_id"].as_str().unwrap().to_owned()
    }

    /// Waits for at least one message and takes what is there.
    pub async fn take(&self, connection: u64) -> Vec<Value> {
        let inbox = self.get(connection, m::MailInbox::NAME, json!({"wait_s": 10.0})).await;
        inbox["messages"].as_array().unwrap().clone()
    }

    pub async fn take_texts(&self, connection: u64, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        while texts.len() < count {
            let got = self.take(connection).await;
            assert!(!got.is_empty(), "only {texts:?} arrived");
            texts.extend(got.iter().map(text));
        }
        texts
    }

    /// Whether nothing new comes; acknowledges what was taken before.
    pub async fn is_empty(&self, connection: u64) -> bool {
        let inbox = self.get(connection, m::MailInbox::NAME, json!({"wait_s": 0.15})).await;
        inbox["messages"].as_array().unwrap().is_empty()
    }

    /// Waits until something lies in this session's inbox that nobody has announced.
    pub async fn reaches_inbox(&self, connection: u64) {
        self.get(connection, m::MailNotices::NAME, json!({"wait_s": 20.0})).await;
    }

    /// Waits until a sent message is in this state.
    pub async fn reaches(&self, connection: u64, id: &str, state: &str) -> Value {
        let asked = || self.get(connection, m::MailStatus::NAME, json!({"message_id": id}));
        until(&format!("{id} becomes {state}"), asked, |status| status["state"] == state).await
    }
}

/// How long anything may take before it counts as hung. Not a speed limit.
pub const GUARD: Duration = Duration::from_secs(30);

/// Asks until the answer is the expected one. For facts that nobody announces.
pub async fn until<F: Future<Output = Value>>(
    what: &str,
    mut ask: impl FnMut() -> F,
    expected: impl Fn(&Value) -> bool,
) -> Value {
    let (end, mut pause) = (Instant::now() + GUARD, Duration::from_micros(500));
    loop {
        let answer = ask().await;
        if expected(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "waited in vain until {what}: {answer}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

pub async fn ask(mail: &Mail, caller: Caller, method: &str, params: Value) -> Result<Value, Fault> {
    let Request::Mail(request) = Request::parse(method, params)? else {
        unreachable!("{method} is not for the mail")
    };
    mail.handle(request, caller).await.map(|reply| serde_json::to_value(reply).unwrap())
}

pub fn text(message: &Value) -> String {
    message["text"].as_str().unwrap().to_owned()
}
