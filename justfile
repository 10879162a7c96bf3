# The recipes are what scripts/test does, one at a time. `just` itself is optional.

# Everything, as CI runs it
test:
    ./scripts/test

fmt:
    cargo fmt

lint:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings

doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace
    cargo test --quiet --doc -p trl-protocol

# Tests whose name contains FILTER
tests FILTER="":
    cargo nextest run --workspace {{ FILTER }}

deny:
    cargo deny check

# Write docs/cli.md anew from the definitions
manual:
    UPDATE=1 cargo nextest run -p trl manual

# Write docs/contract/protocol.json anew from the types
contract:
    UPDATE=1 cargo nextest run -p trl-protocol contract

# Figures beside their floors, measured in one run (docs/benchmarks.md)
bench *ARGS:
    cargo bench -p trl --bench engine -- {{ ARGS }}

# The same with containers and SSH, on an image and an SSH server made for this
bench-runtimes *ARGS:
    ./scripts/bench-runtimes {{ ARGS }}

# What the clients in Python and TypeScript add to a request; fails above 1.5 times the raw socket
bench-clients:
    ./scripts/test-clients --cost

# Load and breakage for MINUTES, with hundreds of sessions (docs/reliability.md)
soak MINUTES="10" *ARGS:
    cargo bench -p trl --bench soak -- --minutes {{ MINUTES }} {{ ARGS }}

# Damaged inputs for SECONDS each, led by the ways they take through the code; what is new stays in the corpus
fuzz SECONDS="60":
    just _fuzz {{ SECONDS }} -p trl-gateway -p trl-journal --lib
    just _fuzz {{ SECONDS }} -p trl-protocol --test host_wire

# Only programs that have the testkit in them can be linked with LLVM's counters
_fuzz SECONDS *TARGETS:
    RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters" \
    TRL_FUZZ_SECONDS={{ SECONDS }} \
    cargo test --target-dir target/fuzz --target "$(rustc --print host-tuple)" {{ TARGETS }} fuzz_

# Deaths of mail's owner at POINTS random steps, one after another on the same homes
crash POINTS="20000":
    TRL_CRASH_POINTS={{ POINTS }} cargo nextest run -p trl-mail --test mail crash_points::

# The smaller binary, without the relay between machines
small:
    cargo nextest run -p trl --no-default-features -E 'test(mail::) or test(first_use)'

# Rules changed one at a time: every change must fail a test (docs/reliability.md; needs `cargo install cargo-mutants`).
# `just mutants -f crates/mail/src/label.rs` for one file
mutants *ARGS:
    ./scripts/mutants {{ ARGS }}

run *ARGS:
    cargo run --release -- {{ ARGS }}
