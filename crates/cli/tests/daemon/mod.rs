//! A daemon as a whole: how it starts and ends, its settings, its limits, and the protocol that every transport speaks.

mod dot_env;
mod events;
mod lifecycle;
mod limits;
mod on_demand;
mod other_users;
mod protocol_rules;
mod secrets;
mod standby;
mod swerex;
mod transports;
