//! From a packet to a stored message with a recipient: opening, receipts, routing.

pub(crate) mod receipts;
pub(crate) mod receive;
pub(crate) mod routes;
