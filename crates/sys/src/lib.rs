//! Operating-system helpers that more than one crate needs.
//!
//! [`process`] reads facts about processes, [`pidfd`] holds and signals one of them, [`lock`] is a
//! lock file, [`private`] makes files and directories that only this user can open, [`clock`]
//! reads the machine's clocks, [`shells`] finds installed shells, [`trust`] tells whether a socket can be
//! trusted, [`descriptors`] passes descriptors to other processes, [`exposure`] limits what other processes can learn about this one, and [`memory`] lets go of what is not
//! needed. Nothing here knows what a session, a daemon or a message is.

pub mod clock;
pub mod descriptors;
pub mod exposure;
pub mod lock;
pub mod memory;
pub mod pidfd;
pub mod private;
pub mod process;
pub mod shells;
pub mod trust;
