//! The program as its users see it: real daemons, real shells, from the outside.
//!
//! One binary: linking one for each file takes longer than running them.

mod adoption;
mod attach;
mod autorespond;
mod background;
mod bonds;
mod cancel;
mod cli_daemon;
mod cli_run;
mod clock;
mod daemon_lifecycle;
mod deadlines;
mod dot_env;
mod events;
mod flood;
mod host_machine;
mod hostile;
mod http;
mod http_docs;
mod http_streams;
mod http_tls;
mod invisible;
mod large_state;
mod limits;
mod load;
mod long_life;
mod lost_session;
mod mail;
mod mail_people;
mod mail_wake;
mod mcp;
mod mcp_clients;
mod mcp_recorded;
mod mcp_waiting;
mod metrics;
mod no_processes;
mod one_command_only;
mod output;
mod protocol_rules;
mod ps_wait;
mod races;
mod relay;
mod repeated_runs;
mod restore;
mod rough_world;
mod sessions;
mod shell_death;
mod sizes_and_bytes;
mod standby;
mod state;
mod stdin;
mod storms;
mod streaming;
mod syntax;
mod terminal;
mod transports;
mod turns;
mod wait;

/// A file that nobody names here would never run.
#[test]
fn every_file_of_tests_is_part_of_this() {
    trl_testkit::every_file_is_named(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"), include_str!("main.rs"));
}
