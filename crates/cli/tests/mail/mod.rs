//! Agents and mail between them, on one machine and through a broker.

mod autorespond;
mod exchange;
mod people;
mod relay;
mod wake;
