//! What was asked and how long it took, counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trl_protocol::session::SessionInfo;
use trl_protocol::system::Stats;
use trl_protocol::{METHODS, MailReply, MethodInfo, Reply};

use crate::ops::session::list;
use crate::ops::system::stats;
use crate::registry::Registry;
use crate::runtime::{Inner, Runtime};
use crate::session::{Session, Totals};

/// Upper ends of the classes in which times are counted, in seconds.
pub const CLASSES: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

#[derive(Debug)]
pub(crate) struct Counters {
    methods: Vec<Counter>,
    mail_sent: AtomicU64,
    mail_read: AtomicU64,
    /// Of the sessions that are over.
    past: Mutex<Totals>,
}

#[derive(Debug, Default)]
struct Counter {
    answered: AtomicU64,
    refused: AtomicU64,
    micros: AtomicU64,
    /// How many took at most so long, each class by itself; the last is for all that took longer.
    classes: [AtomicU64; CLASSES.len() + 1],
}

impl Counters {
    pub(crate) fn new() -> Counters {
        let methods = METHODS.iter().map(|_| Counter::default()).collect();
        Counters {
            methods,
            mail_sent: AtomicU64::new(0),
            mail_read: AtomicU64::new(0),
            past: Mutex::default(),
        }
    }

    pub(crate) fn note(&self, method: &str, took: Duration, reply: Option<&Reply>) {
        let known = METHODS.iter().position(|known| known.name == method);
        let Some(counter) = known.and_then(|index| self.methods.get(index)) else { return };
        let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        add(if reply.is_some() { &counter.answered } else { &counter.refused }, 1);
        add(&counter.micros, took.as_micros() as u64);
        let class = CLASSES.iter().position(|most| took.as_secs_f64() <= *most).unwrap_or(CLASSES.len());
        add(&counter.classes[class], 1);
        if let Some(Reply::Mail(reply)) = reply {
            let (sent, read) = exchanged(reply);
            add(&self.mail_sent, sent);
            add(&self.mail_read, read);
        }
    }

    /// Counts what a session had, while `remove` takes it from those that live: it is
    /// never counted twice and never missing.
    pub(crate) fn session_over(&self, session: &Session, remove: impl FnOnce()) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        remove();
        past.add(session.totals());
    }

    /// Of all sessions, as far as their hosts have told.
    fn totals(&self, registry: &Registry) -> Totals {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = *past;
        for session in registry.all_living() {
            totals.add(session.totals());
        }
        totals
    }
}

/// Messages that a reply says were sent, and that it hands over.
fn exchanged(reply: &MailReply) -> (u64, u64) {
    match reply {
        MailReply::MailSend(_) | MailReply::MailReply(_) => (1, 0),
        MailReply::MailInbox(inbox) => (0, inbox.messages.len() as u64),
        MailReply::MailCheckReply(checked) => (0, checked.reply.is_some().into()),
        MailReply::MailAwaitReply(awaited) => (0, awaited.reply.is_some().into()),
        MailReply::MailSendAndWait(awaited) => (1, awaited.reply.is_some().into()),
        _ => (0, 0),
    }
}

/// Everything that is counted, at one time.
#[derive(Debug)]
pub struct Metrics {
    pub stats: Stats,
    pub sessions: Vec<SessionInfo>,
    pub requests: Vec<MethodMetrics>,
    /// Of all commands, per stream.
    pub output_bytes: [u64; 2],
    /// Shells that were replaced.
    pub restarts: u64,
    /// Messages that clients of this daemon sent, and that were handed to them.
    pub mail_sent: u64,
    pub mail_read: u64,
}

/// One method that was asked at least once.
#[derive(Debug)]
pub struct MethodMetrics {
    pub method: &'static str,
    pub answered: u64,
    pub refused: u64,
    pub seconds: f64,
    /// How many took at most as long as the class of the same place.
    pub within: [u64; CLASSES.len()],
}

impl Runtime {
    pub async fn metrics(&self) -> Metrics {
        let runtime: &Arc<Inner> = &self.0;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of_method = |(method, counter): (&&MethodInfo, &Counter)| {
            let mut sum = 0;
            let within = std::array::from_fn(|class| {
                sum += load(&counter.classes[class]);
                sum
            });
            MethodMetrics {
                method: method.name,
                answered: load(&counter.answered),
                refused: load(&counter.refused),
                seconds: load(&counter.micros) as f64 / 1e6,
                within,
            }
        };
        let counters = &runtime.counters;
        let requests = METHODS.iter().zip(&counters.methods).map(of_method);
        let stats = stats::perform(runtime).await;
        // Asked last of all, so that the totals are of now.
        let mut sessions = list::all(runtime).await.sessions;
        sessions.retain(|session| session.foreign.is_none());
        let totals = counters.totals(&runtime.registry);
        Metrics {
            stats,
            sessions,
            requests: requests.filter(|it| it.answered + it.refused > 0).collect(),
            output_bytes: totals.output_bytes,
            restarts: totals.restarts,
            mail_sent: load(&counters.mail_sent),
            mail_read: load(&counters.mail_read),
        }
    }
}
