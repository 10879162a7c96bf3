//! The program as its users see it: real daemons, real shells, from the outside.
//!
//! One binary: linking one for each file takes longer than running them. A test goes where its
//! subject is; `CONTRIBUTING.md` has the rule.

mod backends;
mod commands;
mod daemon;
mod faults;
mod files;
mod harness;
mod http;
#[cfg(target_os = "linux")]
mod isolation;
mod mail;
mod mcp;
mod sessions;
mod terminals;

/// A file that no `mod` line names would never run.
#[test]
fn every_file_of_tests_is_part_of_this() {
    trl_testkit::every_file_is_named(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"));
}
