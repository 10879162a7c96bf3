//! What was asked and how long it took, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trl_protocol::session::SessionInfo;
use trl_protocol::system::Stats;
use trl_protocol::{Reply, Request};

use crate::ops::session::list;
use crate::ops::system::stats;
use crate::runtime::{Inner, Runtime};

/// Upper ends of the classes in which times are counted, in seconds.
pub const CLASSES: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

#[derive(Debug)]
pub(crate) struct Counters {
    methods: Vec<Counter>,
    output_bytes: [AtomicU64; 2],
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
        let methods = Request::METHODS.iter().map(|_| Counter::default()).collect();
        Counters { methods, output_bytes: Default::default() }
    }

    pub(crate) fn note(&self, method: &str, took: Duration, reply: Option<&Reply>) {
        let known = Request::METHODS.iter().position(|known| *known == method);
        let Some(counter) = known.and_then(|index| self.methods.get(index)) else { return };
        let add = |counter: &AtomicU64, count: u64| counter.fetch_add(count, Ordering::Relaxed);
        add(if reply.is_some() { &counter.answered } else { &counter.refused }, 1);
        add(&counter.micros, took.as_micros() as u64);
        let class = CLASSES.iter().position(|most| took.as_secs_f64() <= *most).unwrap_or(CLASSES.len());
        add(&counter.classes[class], 1);
        let outcome = match reply {
            Some(Reply::Ran(ran)) => Some(&ran.outcome),
            Some(Reply::Streamed(streamed)) => Some(&streamed.outcome),
            _ => None,
        };
        if let Some(outcome) = outcome {
            add(&self.output_bytes[0], outcome.stdout_bytes);
            add(&self.output_bytes[1], outcome.stderr_bytes);
        }
    }
}

/// Everything that is counted, at one time.
#[derive(Debug)]
pub struct Metrics {
    pub stats: Stats,
    pub sessions: Vec<SessionInfo>,
    pub requests: Vec<MethodMetrics>,
    /// Of commands whose end was told, per stream.
    pub output_bytes: [u64; 2],
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
        let of_method = |(method, counter): (&&'static str, &Counter)| {
            let mut sum = 0;
            let within = std::array::from_fn(|class| {
                sum += load(&counter.classes[class]);
                sum
            });
            MethodMetrics {
                method,
                answered: load(&counter.answered),
                refused: load(&counter.refused),
                seconds: load(&counter.micros) as f64 / 1e6,
                within,
            }
        };
        let counters = &runtime.counters;
        let requests = Request::METHODS.iter().zip(&counters.methods).map(of_method);
        Metrics {
            stats: stats::perform(runtime).await,
            sessions: list::perform(runtime).await.sessions,
            requests: requests.filter(|it| it.answered + it.refused > 0).collect(),
            output_bytes: [load(&counters.output_bytes[0]), load(&counters.output_bytes[1])],
        }
    }
}
