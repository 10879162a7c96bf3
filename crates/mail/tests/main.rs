//! Mail from the outside of its crate: real stores, real brokers, real deaths.
//!
//! One binary: linking one for each file takes longer than running most of them.

mod support;

mod autorespond;
mod contacts;
mod crash;
mod crash_points;
mod envelope;
mod exchange;
mod guards;
mod handmade;
mod hostile;
mod labels;
mod leases;
mod notices;
mod ratchets;
mod receipts;
mod registry;
mod resending;
mod restored;
mod retention;
mod rules;
mod runtimes;
mod sealing;

/// A file that nobody names here would never run.
#[test]
fn every_file_of_tests_is_part_of_this() {
    trl_testkit::every_file_is_named(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"));
}
