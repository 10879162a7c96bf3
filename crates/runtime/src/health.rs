//! Whether runtimes can be reached, as it was last seen.
//!
//! Asking takes as long as a network does, so nobody waits for it: what is known is told, and
//! what is old is looked at again in the background. A session that starts, or cannot, tells
//! as much as a look.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trl_protocol::Fault;
use trl_protocol::system::{PlaceFacts, RuntimeState};

use crate::backend::Backend;
use crate::place::Place;

/// What was seen is believed for so long.
const FRESH: Duration = Duration::from_secs(15);

/// What is known of one runtime.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeHealth {
    pub(crate) state: RuntimeState,
    pub(crate) reason: Option<String>,
    pub(crate) since: String,
    pub(crate) facts: Option<PlaceFacts>,
    pub(crate) rtt_ms: Option<f64>,
    looked: Option<Instant>,
    looking: bool,
}

impl RuntimeHealth {
    fn new() -> RuntimeHealth {
        RuntimeHealth {
            state: RuntimeState::Unknown,
            reason: None,
            since: now(),
            facts: None,
            rtt_ms: None,
            looked: None,
            looking: false,
        }
    }

    fn change(&mut self, state: RuntimeState, reason: Option<String>) {
        if self.state != state {
            self.since = now();
        }
        (self.state, self.reason, self.looked) = (state, reason, Some(Instant::now()));
    }
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Health(Arc<Mutex<HashMap<String, RuntimeHealth>>>);

impl Health {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, RuntimeHealth>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known; if that is old, it is looked at again.
    pub(crate) fn of(&self, place: &Place) -> RuntimeHealth {
        let mut all = self.lock();
        let known = all.entry(place.name().to_owned()).or_insert_with(RuntimeHealth::new);
        let told = known.clone();
        if !known.looking && known.looked.is_none_or(|looked| looked.elapsed() > FRESH) {
            known.looking = true;
            tokio::spawn(self.clone().look(place.clone()));
        }
        told
    }

    async fn look(self, place: Place) {
        let seen = place.look().await;
        let mut all = self.lock();
        let Some(known) = all.get_mut(place.name()) else { return };
        known.looking = false;
        match seen {
            Ok((facts, took)) => {
                known.facts = facts.or(known.facts.take());
                known.rtt_ms = Some(took.as_secs_f64() * 1000.0);
                known.change(RuntimeState::Ready, None);
            }
            Err(fault) => known.change(RuntimeState::Unreachable, Some(fault.message.into())),
        }
    }

    /// Whether it was there when it was last seen.
    pub(crate) fn is_ready(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|known| known.state == RuntimeState::Ready)
    }

    /// It took a connection.
    pub(crate) fn reached(&self, name: &str) {
        let mut all = self.lock();
        let known = all.entry(name.to_owned()).or_insert_with(RuntimeHealth::new);
        let looked = known.looked;
        known.change(RuntimeState::Ready, None);
        // What the place is like is only known by looking.
        known.looked = looked;
    }

    /// It could not be reached.
    pub(crate) fn failed(&self, name: &str, reason: &str) {
        let mut all = self.lock();
        let known = all.entry(name.to_owned()).or_insert_with(RuntimeHealth::new);
        known.change(RuntimeState::Unreachable, Some(reason.to_owned()));
    }

    /// A session was started there, or could not be.
    pub(crate) fn note(&self, backend: &dyn Backend, started: Result<(), &Fault>) {
        match started {
            Ok(()) => self.reached(backend.name()),
            Err(fault) if fault.code == trl_protocol::Code::RuntimeUnavailable => {
                self.failed(backend.name(), &fault.message);
            }
            Err(_) => {}
        }
    }
}
