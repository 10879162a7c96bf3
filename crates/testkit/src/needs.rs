//! What a test needs that not every machine has. A test that cannot run says so and why.
//!
//! The test runner knows only passed and failed, so what was skipped is noted in `target/skipped-tests`;
//! `scripts/test` shows it after the runner's own summary.

use std::fs::File;
use std::io::Write as _;

/// Whether this process is root's. `what_for` completes "it must run as root, to …".
pub fn root(what_for: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(&format!("it must run as root, to {what_for}"));
    }
    is_root
}

/// Notes that the calling test has not run. The caller returns after this.
pub fn skip(reason: &str) {
    let line = format!("{}: {reason}\n", test_name());
    eprint!("skipped: {line}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/skipped-tests");
    let mut file = File::options().create(true).append(true).open(path).expect("a note of what was skipped");
    file.write_all(line.as_bytes()).expect("a note of what was skipped");
}

/// The runner names the one test that a process runs; a plain `cargo test` names its threads.
fn test_name() -> String {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let thread = std::thread::current();
    named.or_else(|| thread.name().map(str::to_owned)).unwrap_or_else(|| "a test".to_owned())
}
