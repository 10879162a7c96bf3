//! The relay between machines, against real brokers.
//!
//! One binary: linking one for each file takes longer than running most of them.

mod support;

mod attacks;
mod migration;
mod relay;

/// A file that nobody names here would never run.
#[test]
fn every_file_of_tests_is_part_of_this() {
    trl_testkit::every_file_is_named(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"));
}
