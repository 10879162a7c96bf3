//! Agents and mail between them, on one machine and through a broker.

mod autorespond;
mod exchange;
mod follow;
mod hooks;
mod interrupted;
mod people;
#[cfg(feature = "relay-nats")]
mod relay;
mod wake;
#[cfg(not(feature = "relay-nats"))]
mod without_relay;
