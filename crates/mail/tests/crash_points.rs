//! Thousands of deaths at random points, one after another on the same homes.
//!
//! A death here is of the owner, not of the process: from a chosen step on no step is
//! reached and nothing becomes durable, in no database, just as if the power of the daemon
//! had been cut there. (`crash.rs` does the same with processes, and fewer of them.) The
//! next life opens what is left, must find everything that was promised, and is cut too.
//! `TRL_CRASH_POINTS` makes it a longer walk, `TRL_CRASH_SEED` another one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use trl_mail::clock::SystemClock;
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::{EmbeddedLimits, EmbeddedRelay, Relay};
use trl_mail::steps::Steps;
use trl_mail::{Caller, Mail, MailConfig, MailError};
use trl_relay_nats::{BrokerConfig, Credentials, NatsRelay, Quota, Tls, setup};
use trl_testkit::Broker;

use crate::support;
use crate::support::{ask, until};

/// Steps of one life, more or less; a death later than its last step is none.
const STEPS: u64 = 140;
/// Homes that live and die side by side.
const CHAINS: u64 = 6;
const NAMES: [&str; 2] = ["alice", "bob"];

/// When an owner dies.
#[derive(Debug)]
struct Fate {
    left: AtomicI64,
    dead: AtomicBool,
    died: Notify,
}

impl Fate {
    fn new() -> Arc<Fate> {
        Arc::new(Fate { left: AtomicI64::new(i64::MAX), dead: AtomicBool::new(false), died: Notify::new() })
    }

    fn steps(self: &Arc<Fate>) -> Steps {
        let fate = Arc::clone(self);
        Steps::watched(move |step| {
            if fate.left.fetch_sub(1, Ordering::SeqCst) == 0 {
                fate.dead.store(true, Ordering::SeqCst);
                fate.died.notify_one();
            }
            if fate.dead.load(Ordering::SeqCst) { Err(MailError::Injected(step)) } else { Ok(()) }
        })
    }

    fn arm(&self, left: u64) {
        self.left.store(left as i64, Ordering::SeqCst);
    }
}

/// A daemon's mail with the agents that live in it.
struct Office {
    home: TempDir,
    broker: Option<String>,
    agents: &'static [&'static str],
    open: Option<(Mail, Arc<Fate>)>,
}

/// Where a write costs nothing, if there is such a place: a death of the owner alone takes no
/// written byte with it, synced or not.
fn swift_home() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Office {
    fn new(broker: Option<String>, agents: &'static [&'static str]) -> Office {
        Office { home: swift_home(), broker, agents, open: None }
    }

    fn relay(&self, steps: Steps) -> Arc<dyn Relay> {
        let home = self.home.path();
        match &self.broker {
            Some(url) => Arc::new(NatsRelay::open(access(url), Some(home.join("broker"))).unwrap()),
            None => Arc::new(EmbeddedRelay::open(home, EmbeddedLimits::default(), steps).unwrap()),
        }
    }

    /// Opens what is left of it, if it died.
    fn revive(&mut self) {
        if self.open.is_some() {
            return;
        }
        let fate = Fate::new();
        let mut config = MailConfig::new(Path::to_owned(self.home.path()));
        config.steps = fate.steps();
        config.one_time_keys = 4;
        config.republish_after = Duration::from_millis(150);
        config.rate_per_minute = u32::MAX;
        config.local_rate_per_minute = u32::MAX;
        let relay = self.relay(fate.steps());
        let mail = Mail::open(config, Arc::new(SystemClock), Arc::new(SystemProcesses), relay).unwrap();
        self.open = Some((mail, fate));
    }

    fn mail(&self) -> &Mail {
        &self.open.as_ref().unwrap().0
    }

    fn fate(&self) -> &Fate {
        &self.open.as_ref().unwrap().1
    }

    /// Buries it if it is dead.
    async fn bury(&mut self) -> bool {
        let dead = self.fate().dead.load(Ordering::SeqCst);
        if dead && let Some((mail, _)) = self.open.take() {
            assert!(mail.close().await.is_err(), "a dead owner cannot say that all is in order");
        }
        dead
    }
}

fn access(url: &str) -> BrokerConfig {
    BrokerConfig { servers: url.to_owned(), credentials: Credentials::None, tls: Tls::default() }
}

/// What all lives together said, of one recipient.
#[derive(Debug, Default)]
struct Said {
    /// Texts in the order they were tried.
    tried: Vec<String>,
    /// What was promised, with the id that was given.
    sent: Vec<(String, String)>,
    /// What was handed out and acknowledged.
    read: Vec<String>,
    /// What was handed out; whether the acknowledgement was taken, nobody knows.
    unsure: HashSet<String>,
}

impl Said {
    fn outstanding(&self) -> Vec<&str> {
        let known: HashSet<&str> = self.read.iter().chain(&self.unsure).map(String::as_str).collect();
        self.sent.iter().map(|(text, _)| text.as_str()).filter(|text| !known.contains(text)).collect()
    }

    /// Exactly once, and in order.
    fn check(&self, who: &str) {
        let once: HashSet<_> = self.read.iter().collect();
        assert_eq!(once.len(), self.read.len(), "{who} read something twice");
        let places: Vec<_> =
            self.read.iter().map(|text| self.tried.iter().position(|tried| tried == text)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{who} read out of order");
    }
}

struct World {
    offices: Vec<Office>,
    said: [RefCell<Said>; 2],
    life: usize,
}

impl World {
    fn office_of(&self, name: &str) -> &Office {
        self.offices.iter().find(|office| office.agents.contains(&name)).unwrap()
    }

    /// Of what the dead cannot answer, nobody hears.
    async fn ask(&self, name: &str, method: &str, params: Value) -> Value {
        let office = self.office_of(name);
        let connection = 1 + office.agents.iter().position(|agent| *agent == name).unwrap() as u64;
        match ask(office.mail(), Caller::on(connection), method, params).await {
            Ok(answer) => answer,
            Err(fault) if office.fate().dead.load(Ordering::SeqCst) => {
                drop(fault);
                std::future::pending().await
            }
            Err(fault) => panic!("{name}: {method}: {fault}"),
        }
    }

    async fn begin(&mut self) {
        for office in &mut self.offices {
            office.revive();
        }
        let mut addresses = Vec::new();
        for name in NAMES {
            let made = self.ask(name, m::AgentCreate::NAME, json!({ "name": name })).await;
            addresses.push(made["address"].as_str().unwrap().to_owned());
            self.appear(name).await;
        }
        if self.offices.len() == 1 {
            return;
        }
        self.ask("alice", m::ContactRequest::NAME, json!({ "who": addresses[1] })).await;
        let list = |name| self.ask(name, m::ContactList::NAME, json!({}));
        until("bob is asked", || list("bob"), |list| list["contacts"][0]["state"] == "asking").await;
        self.ask("bob", m::ContactAccept::NAME, json!({ "who": addresses[0] })).await;
        until("alice is accepted", || list("alice"), |list| list["contacts"][0]["state"] == "accepted").await;
    }

    async fn appear(&self, name: &str) {
        let params = json!({"agent": name, "label": "here", "harness_session_id": format!("h-{name}")});
        self.ask(name, m::AgentUse::NAME, params).await;
    }

    async fn live(&self) {
        for name in NAMES {
            self.appear(name).await;
        }
        // What earlier lives promised comes first, whatever they died of.
        tokio::join!(self.read(0), self.read(1));
        for n in 0..2 {
            for (recipient, sender) in [(0, 1), (1, 0)] {
                self.send(sender, recipient, format!("{}.{n}", self.life)).await;
            }
        }
        tokio::join!(self.read(0), self.read(1));
        self.told_as_read(1).await;
    }

    async fn send(&self, sender: usize, recipient: usize, text: String) {
        let said = &self.said[recipient];
        said.borrow_mut().tried.push(text.clone());
        // Every other one for a session that may not be there yet when it arrives.
        let session = text.ends_with('1').then_some("here");
        let params = json!({"to": NAMES[recipient], "text": text, "to_session": session});
        let sent = self.ask(NAMES[sender], m::MailSend::NAME, params).await;
        said.borrow_mut().sent.push((text, sent["message_id"].as_str().unwrap().to_owned()));
    }

    /// Until everything that was promised is read.
    async fn read(&self, who: usize) {
        let said = &self.said[who];
        let mut last: Vec<(String, String)> = Vec::new();
        loop {
            let missing = !said.borrow().outstanding().is_empty();
            let ids: Vec<&String> = last.iter().map(|(id, _)| id).collect();
            let wait = if missing { 30.0 } else { 0.0 };
            let params = json!({"ack": ids, "wait_s": wait, "limit": 3});
            let inbox = self.ask(NAMES[who], m::MailInbox::NAME, params).await;
            let mut said = said.borrow_mut();
            for (_, text) in last.drain(..) {
                said.unsure.remove(&text);
                said.read.push(text);
            }
            last.extend(
                inbox["messages"].as_array().unwrap().iter().map(|message| {
                    (message["message_id"].as_str().unwrap().to_owned(), support::text(message))
                }),
            );
            said.unsure.extend(last.iter().map(|(_, text)| text.clone()));
            if last.is_empty() {
                assert!(said.outstanding().is_empty(), "{} lost {:?}", NAMES[who], said.outstanding());
                return;
            }
        }
    }

    /// The senders hear that their newest messages are read.
    async fn told_as_read(&self, newest: usize) {
        for (recipient, sender) in [(0, 1), (1, 0)] {
            let sent = self.said[recipient].borrow().sent.clone();
            for (text, id) in sent.iter().rev().take(newest) {
                let status = || self.ask(NAMES[sender], m::MailStatus::NAME, json!({ "message_id": id }));
                until(&format!("{text} is read"), status, |status| status["state"] == "read").await;
            }
        }
    }

    /// One life, cut at this step of one office; whether it was.
    async fn cut(&mut self, victim: usize, step: u64) -> bool {
        for office in &mut self.offices {
            office.revive();
        }
        self.life += 1;
        let fate = Arc::clone(&self.offices[victim].open.as_ref().unwrap().1);
        fate.arm(step);
        tokio::select! {
            biased;
            () = fate.died.notified() => {}
            () = self.live() => fate.arm(i64::MAX as u64),
        }
        let died = self.offices[victim].bury().await;
        for (name, said) in NAMES.iter().zip(&self.said) {
            said.borrow().check(name);
        }
        died
    }

    async fn end(&mut self) {
        for office in &mut self.offices {
            office.revive();
        }
        for name in NAMES {
            self.appear(name).await;
        }
        tokio::join!(self.read(0), self.read(1));
        self.told_as_read(usize::MAX).await;
        for name in NAMES {
            let dead = self.ask(name, m::MailDeadLetters::NAME, json!({})).await;
            assert_eq!(dead["dead_letters"], json!([]), "every packet could be opened");
        }
        for office in &mut self.offices {
            let (mail, _) = office.open.take().unwrap();
            mail.close().await.unwrap();
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// A fixed walk, so that a failure can be repeated as far as threads allow it.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Dies so many times; how many lives that took.
fn walk(offices: Vec<Office>, deaths: u64, mut seed: u64, mut between: impl FnMut(u64)) -> u64 {
    println!("seed {seed}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World { offices, said: Default::default(), life: 0 };
        world.begin().await;
        let (mut died, mut lives) = (0, 0);
        while died < deaths {
            let (victim, step) = (next(&mut seed) as usize % world.offices.len(), next(&mut seed) % STEPS);
            died += u64::from(world.cut(victim, step).await);
            lives += 1;
            between(lives);
            assert!(lives < 20 + deaths * 10, "hardly anybody dies");
        }
        world.end().await;
        lives
    })
}

#[test]
fn after_thousands_of_deaths_everything_promised_was_read_once_and_in_order() {
    let points = number("TRL_CRASH_POINTS").unwrap_or(2000);
    let seed = number("TRL_CRASH_SEED").unwrap_or(0x2545_f491_4f6c_dd1d);
    let lives: u64 = std::thread::scope(|scope| {
        let chains: Vec<_> = (0..CHAINS)
            .map(|chain| {
                let office = || vec![Office::new(None, &NAMES)];
                let seed = seed.wrapping_add(chain * 0x9e37_79b9);
                scope.spawn(move || walk(office(), points.div_ceil(CHAINS), seed, |_| {}))
            })
            .collect();
        chains.into_iter().map(|chain| chain.join().unwrap()).sum()
    });
    println!("{points} deaths in {lives} lives");
}

/// Two daemons with a broker between them: one dies, the other lives on, and now and then the
/// broker is killed as well.
#[test]
fn daemons_that_die_in_turns_around_a_broker_lose_and_double_nothing() {
    let points = number("TRL_CRASH_POINTS").map_or(40, |points| points / 20);
    let seed = number("TRL_CRASH_SEED").unwrap_or(0x1d87_2b41_9c3e_55a7);
    let mut broker = Broker::open_to_all();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(setup::prepare(&access(&broker.url()), &[], Quota::default(), 1)).unwrap();
    let url = || Some(broker.url());
    let offices = vec![Office::new(url(), &NAMES[..1]), Office::new(url(), &NAMES[1..])];
    let lives = walk(offices, points, seed, |life| {
        if life % 25 == 24 {
            broker.kill();
            broker.start();
        }
    });
    println!("{points} deaths in {lives} lives");
}
