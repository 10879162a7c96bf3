//! Failures around the program: killed daemons and hosts, full disks, missing processes, clock jumps, load.

mod adoption;
pub(crate) mod clock;
mod damaged;
mod host_machine;
mod inner_daemon;
mod load;
mod lost_session;
mod no_processes;
mod power;
mod rough_world;
mod storms;
