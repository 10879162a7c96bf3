//! Operating-system helpers that more than one crate needs.
//!
//! [`process`] reads facts about processes, [`pidfd`] holds and signals one of them, [`lock`] is a
//! lock file, [`private`] makes files and directories that only this user can open, and [`clock`]
//! reads the machine's clocks. Nothing here knows what a session, a daemon or a message is.

pub mod clock;
pub mod lock;
pub mod pidfd;
pub mod private;
pub mod process;
