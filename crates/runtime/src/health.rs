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
    pub(crate) fn of(&self, backend: &Arc<dyn Backend>) -> RuntimeHealth {
        let mut all = self.lock();
        let known = all.entry(backend.name().to_owned()).or_insert_with(RuntimeHealth::new);
        let told = known.clone();
        if !known.looking && known.looked.is_none_or(|looked| looked.elapsed() > FRESH) {
            known.looking = true;
            tokio::spawn(self.clone().look(Arc::clone(backend)));
        }
        told
    }

    async fn look(self, backend: Arc<dyn Backend>) {
        let begun = Instant::now();
        let seen = backend.look().await;
        let took = begun.elapsed();
        let mut all = self.lock();
        let Some(known) = all.get_mut(backend.name()) else { return };
        known.looking = false;
        match seen {
            Ok(facts) => {
                known.facts = facts.or(known.facts.take());
                known.rtt_ms = Some(took.as_secs_f64() * 1000.0);
                known.change(RuntimeState::Ready, None);
            }
            Err(fault) => known.change(RuntimeState::Unreachable, Some(fault.message.into())),
        }
    }

    /// A session was started there, or could not be.
    pub(crate) fn note(&self, backend: &dyn Backend, started: Result<(), &Fault>) {
        let mut all = self.lock();
        let known = all.entry(backend.name().to_owned()).or_insert_with(RuntimeHealth::new);
        match started {
            Ok(()) => {
                let looked = known.looked;
                known.change(RuntimeState::Ready, None);
                // What the place is like is only known by looking.
                known.looked = looked;
            }
            Err(fault) if fault.code == trl_protocol::Code::RuntimeUnavailable => {
                known.change(RuntimeState::Unreachable, Some(fault.message.to_string()));
            }
            Err(_) => {}
        }
    }
}
