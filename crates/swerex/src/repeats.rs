//! A request that is sent again under the same id gets the answer of the first, and is not done twice.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use tokio::sync::OnceCell;

/// Answers that are kept.
const KEPT: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// One request, however often it is sent.
type StoredAnswer = Arc<OnceCell<Answer>>;

#[derive(Debug, Default)]
pub(crate) struct Repeats {
    known: Mutex<RememberedRequests>,
}

#[derive(Debug, Default)]
struct RememberedRequests {
    places: HashMap<String, StoredAnswer>,
    order: VecDeque<String>,
}

impl Repeats {
    /// Does `work` unless it was done under this id; a repetition waits while the first is under way.
    pub(crate) async fn once<F: Future<Output = Answer>>(
        &self,
        id: &str,
        work: impl FnOnce() -> F,
    ) -> Answer {
        let place = self.place(id);
        place.get_or_init(work).await.clone()
    }

    fn place(&self, id: &str) -> StoredAnswer {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.places.get(id) {
            return Arc::clone(place);
        }
        if known.order.len() == KEPT
            && let Some(oldest) = known.order.pop_front()
        {
            known.places.remove(&oldest);
        }
        let place = StoredAnswer::default();
        known.places.insert(id.to_owned(), Arc::clone(&place));
        known.order.push_back(id.to_owned());
        place
    }
}
