//! From a request to a published packet: checks, storing, sealing, publishing.

pub(crate) mod outbox;
pub(crate) mod publish_queue;
pub(crate) mod pump;
pub(crate) mod ratchets;
pub(crate) mod rates;
pub(crate) mod repeated;
pub(crate) mod reset;
pub(crate) mod sealing;
pub(crate) mod send;
