//! Killing the owner of the mail at every numbered step, and then at random ones.
//!
//! The child process is this very test binary. It sends both ways, reads, and says
//! on stdout what it was promised; it dies by abort in the middle, on one home, again
//! and again. What the survivors hold is then compared with what was promised.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test and its child")]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use tempfile::TempDir;
use trl_mail::clock::SystemClock;
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::{EmbeddedLimits, EmbeddedRelay, Relay};
use trl_mail::steps::{Step, Steps};
use trl_mail::{Caller, Mail, MailConfig, MailError};
use trl_relay_nats::{BrokerConfig, Credentials, NatsRelay, Quota, Tls, setup};
use trl_testkit::Broker;

use crate::support;
use crate::support::ask;

const HOME: &str = "TRL_TEST_CRASH_HOME";
const PLAN: &str = "TRL_TEST_CRASH_PLAN";
const RUN: &str = "TRL_TEST_CRASH_RUN";
const PER_RUN: usize = 3;

/// When the child dies: at the n-th time of one step, at the n-th step of all, or never.
#[derive(Debug, Clone, Copy)]
enum Plan {
    At(Step, u64),
    AfterSteps(u64),
    /// By SIGKILL from outside, after this many milliseconds, wherever that is.
    Killed(u64),
    Never,
}

impl Plan {
    fn written(self) -> String {
        match self {
            Plan::At(step, n) => format!("at {} {n}", step as u32),
            Plan::AfterSteps(n) => format!("after {n}"),
            Plan::Killed(ms) => format!("killed {ms}"),
            Plan::Never => "never".to_owned(),
        }
    }

    fn read(text: &str) -> Plan {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["at", step, n] => {
                let number: u32 = step.parse().unwrap();
                let step = Step::ALL.into_iter().find(|step| *step as u32 == number).unwrap();
                Plan::At(step, n.parse().unwrap())
            }
            ["after", n] => Plan::AfterSteps(n.parse().unwrap()),
            ["killed", ms] => Plan::Killed(ms.parse().unwrap()),
            _ => Plan::Never,
        }
    }

    fn hook(self) -> Steps {
        let count = AtomicU64::new(0);
        Steps::watched(move |step| {
            let dies = match self {
                Plan::At(wanted, n) => step == wanted && count.fetch_add(1, Ordering::SeqCst) == n,
                Plan::AfterSteps(n) => count.fetch_add(1, Ordering::SeqCst) == n,
                Plan::Killed(_) | Plan::Never => false,
            };
            if dies {
                std::process::abort();
            }
            Ok(())
        })
    }
}

/// A home with this file in it has its mail carried by the broker that the file names.
const BROKER: &str = "broker.url";

fn relay(home: &Path, steps: Steps) -> Arc<dyn Relay> {
    match std::fs::read_to_string(home.join(BROKER)) {
        Ok(servers) => {
            let config = BrokerConfig { servers, credentials: Credentials::None, tls: Tls::default() };
            Arc::new(NatsRelay::open(config, Some(home.join("broker.id"))).unwrap())
        }
        Err(_) => Arc::new(EmbeddedRelay::open(home, EmbeddedLimits::default(), steps).unwrap()),
    }
}

fn open(home: &Path, steps: Steps) -> Mail {
    let relay = relay(home, steps.clone());
    let mut config = MailConfig::new(home.to_owned());
    config.steps = steps;
    config.republish_after = Duration::from_millis(150);
    config.one_time_keys = 4;
    Mail::open(config, Arc::new(SystemClock), Arc::new(SystemProcesses), relay).unwrap()
}

/// The child: one life of the owner. Does nothing when it is run as a test.
#[test]
fn child() {
    let Ok(home) = std::env::var(HOME) else { return };
    let plan = Plan::read(&std::env::var(PLAN).unwrap());
    let run = std::env::var(RUN).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(live(Path::new(&home), plan, &run));
}

async fn live(home: &Path, plan: Plan, run: &str) {
    let mail = open(home, plan.hook());
    for (connection, name) in [(1, "alice"), (2, "bob")] {
        let created = ask(&mail, Caller::default(), m::AgentCreate::NAME, json!({"name": name})).await;
        drop(created);
        let used = json!({"agent": name, "harness_session_id": format!("h-{name}")});
        ask(&mail, Caller::on(connection), m::AgentUse::NAME, used).await.unwrap();
    }
    for n in 0..PER_RUN {
        for (connection, to) in [(1, "bob"), (2, "alice")] {
            let text = format!("{run}.{n}");
            println!("@@try {to} {text}");
            let sent =
                ask(&mail, Caller::on(connection), m::MailSend::NAME, json!({"to": to, "text": text})).await;
            if let Ok(sent) = sent {
                println!("@@sent {to} {text} {}", sent["message_id"].as_str().unwrap());
            }
        }
    }
    // Long enough for what is to be interrupted to begin.
    let begins = if home.join(BROKER).exists() { 0.4 } else { 0.12 };
    let wait = if matches!(plan, Plan::Never) { 1.5 } else { begins };
    tokio::join!(read_all(&mail, 1, "alice", wait), read_all(&mail, 2, "bob", wait));
    mail.close().await.unwrap();
}

/// A message counts as read when its acknowledgement was answered.
async fn read_all(mail: &Mail, connection: u64, name: &str, wait: f64) {
    let mut last: Vec<(String, String)> = Vec::new();
    loop {
        let ids: Vec<&String> = last.iter().map(|(id, _)| id).collect();
        let params = json!({"ack": ids, "wait_s": wait, "limit": 2});
        let inbox = ask(mail, Caller::on(connection), m::MailInbox::NAME, params).await.unwrap();
        for (_, text) in &last {
            println!("@@read {name} {text}");
        }
        last = inbox["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| (m["message_id"].as_str().unwrap().to_owned(), m["text"].as_str().unwrap().to_owned()))
            .collect();
        if last.is_empty() {
            return;
        }
    }
}

/// What all lives together said.
#[derive(Default)]
struct Said {
    /// Recipient and text, in the order they were tried.
    tried: Vec<(String, String)>,
    /// What was promised, with the id that was given.
    sent: HashMap<(String, String), String>,
    read: Vec<(String, String)>,
    deaths: usize,
}

fn run_child(home: &Path, plan: Plan, run: usize, said: &mut Said) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--nocapture"])
        .env(HOME, home)
        .env(PLAN, plan.written())
        .env(RUN, run.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if let Plan::Killed(ms) = plan {
        let (_never, nothing) = std::sync::mpsc::channel::<()>();
        assert!(nothing.recv_timeout(Duration::from_millis(ms)).is_err());
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        use std::os::unix::process::ExitStatusExt;
        let errors = String::from_utf8_lossy(&output.stderr);
        let signal = output.status.signal();
        assert!(matches!(signal, Some(6 | 9)), "{plan:?}: {errors}");
        assert!(!errors.contains("panicked"), "{plan:?}: {errors}");
        said.deaths += 1;
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((_, line)) = line.split_once("@@") else { continue };
        let words: Vec<&str> = line.split(' ').collect();
        let message = |to: &str, text: &str| (to.to_owned(), text.to_owned());
        match words[..] {
            ["try", to, text] => said.tried.push(message(to, text)),
            ["sent", to, text, id] => drop(said.sent.insert(message(to, text), id.to_owned())),
            ["read", who, text] => said.read.push(message(who, text)),
            _ => {}
        }
    }
}

/// Exactly once, in order, and whatever was promised is there.
async fn compare(home: &Path, said: &Said) {
    let once: HashSet<_> = said.read.iter().collect();
    assert_eq!(once.len(), said.read.len(), "something was read twice");
    for who in ["alice", "bob"] {
        let tried: Vec<_> = said.tried.iter().filter(|(to, _)| to == who).collect();
        let place = |message: &(String, String)| tried.iter().position(|tried| *tried == message).unwrap();
        let read: Vec<_> = said.read.iter().filter(|(to, _)| to == who).map(place).collect();
        assert!(read.is_sorted(), "{who} read out of order: {read:?}");
    }
    let mail = open(home, Steps::default());
    for (connection, name) in [(1, "alice"), (2, "bob")] {
        let used = json!({"agent": name, "harness_session_id": format!("h-{name}")});
        ask(&mail, Caller::on(connection), m::AgentUse::NAME, used).await.unwrap();
    }
    for (message, id) in &said.sent {
        let sender = if message.0 == "bob" { 1 } else { 2 };
        let known = once.contains(message);
        // Read before the death that swallowed the word of it, or read and told; the sender hears of it.
        let what = format!("{message:?} is read (told as read: {known})");
        let status = || async {
            ask(&mail, Caller::on(sender), m::MailStatus::NAME, json!({"message_id": id})).await.unwrap()
        };
        support::until(&what, status, |status| status["state"] == "read").await;
    }
    mail.close().await.unwrap();
}

fn plans(times: u64, random: u64) -> Vec<Plan> {
    let mut plans: Vec<Plan> =
        Step::ALL.into_iter().flat_map(|step| (0..times).map(move |n| Plan::At(step, n))).collect();
    // A fixed walk, so that a failure can be repeated.
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..random {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        plans.push(if seed.is_multiple_of(3) {
            Plan::Killed(20 + seed % 181)
        } else {
            Plan::AfterSteps(seed % 90)
        });
    }
    plans
}

fn survive(plans: Vec<Plan>, home: &TempDir, mut between: impl FnMut(usize)) {
    let mut said = Said::default();
    let count = plans.len();
    for (run, plan) in plans.into_iter().enumerate() {
        between(run);
        run_child(home.path(), plan, run, &mut said);
    }
    run_child(home.path(), Plan::Never, count, &mut said);
    println!(
        "{} lives, {} deaths, {} promised, {} read",
        count,
        said.deaths,
        said.sent.len(),
        said.read.len()
    );
    assert!(said.deaths * 2 > count, "only {} of {count} died", said.deaths);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(compare(home.path(), &said));
}

/// At every step, and at forty random points; `TRL_CRASH_POINTS` makes it a longer walk.
#[test]
fn killed_at_every_step_nothing_is_lost_or_doubled() {
    let points = std::env::var("TRL_CRASH_POINTS").ok().and_then(|text| text.parse().ok());
    survive(plans(3, points.unwrap_or(40)), &tempfile::tempdir().unwrap(), |_| {});
}

/// The same with a broker between, which is killed too, now and then.
#[test]
fn killed_at_every_step_with_a_broker_between_nothing_is_lost_or_doubled() {
    let mut broker = Broker::open_to_all();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(BROKER), broker.url()).unwrap();
    let config = BrokerConfig { servers: broker.url(), credentials: Credentials::None, tls: Tls::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(setup::prepare(&config, &[], Quota::default(), 1)).unwrap();
    survive(plans(1, 8), &home, |run| {
        if run % 8 == 7 {
            broker.kill();
            broker.start();
        }
    });
}

/// A step that fails without death: the same life must get over it.
#[tokio::test]
async fn a_failure_at_any_step_is_got_over() {
    for step in Step::ALL {
        let home = tempfile::tempdir().unwrap();
        let left = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&left);
        let hook = Steps::watched(move |reached| {
            let fails = reached == step
                && counted
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok();
            if fails { Err(MailError::Injected(step)) } else { Ok(()) }
        });
        let mail = open(home.path(), hook);
        for (connection, name) in [(1, "alice"), (2, "bob")] {
            ask(&mail, Caller::default(), m::AgentCreate::NAME, json!({"name": name})).await.unwrap();
            ask(&mail, Caller::on(connection), m::AgentUse::NAME, json!({"agent": name})).await.unwrap();
        }
        left.store(1, Ordering::SeqCst);
        let mut expected = Vec::new();
        for n in 0..4 {
            let text = format!("{n}");
            let sent = ask(&mail, Caller::on(1), m::MailSend::NAME, json!({"to": "bob", "text": text})).await;
            // Stored though its sender was told of a failure: it may arrive, once.
            if sent.is_ok() || step == Step::SendCommitted {
                expected.push(text);
            }
        }
        let mut got: Vec<String> = Vec::new();
        while got.len() < expected.len() {
            let inbox = ask(&mail, Caller::on(2), m::MailInbox::NAME, json!({"wait_s": 5.0})).await;
            let Ok(inbox) = inbox else { continue };
            let texts = inbox["messages"].as_array().unwrap().iter().map(support::text);
            let before = got.len();
            got.extend(texts);
            assert!(got.len() > before, "{step:?}: only {got:?} of {expected:?}");
        }
        assert_eq!(got, expected, "{step:?}");
    }
}
