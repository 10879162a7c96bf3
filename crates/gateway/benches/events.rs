//! What it costs to write an output event through its one definition (`trl_protocol::Event`), with
//! our own writer and with serde_json, beside the least that it could cost: a copy of the bytes.
//!
//! `cargo bench -p trl-gateway --bench events`. The three are measured in turns and compared by their
//! medians, so only the ratios mean something.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[allow(dead_code, unused_imports, reason = "the module's own tests are left out, not what they use")]
#[path = "../src/json_writer.rs"]
mod json_writer;

use std::hint::black_box;
use std::time::{Duration, Instant};

use trl_protocol::Event;
use trl_protocol::exec::Stream;

const EVENT_BYTES: usize = 64 * 1024;
const EVENTS_PER_ROUND: usize = 64;
const ROUNDS: usize = 101;

fn main() {
    let words = "a line of ordinary output, as compilers print it\n".repeat(EVENT_BYTES / 49);
    let newlines = "y\n".repeat(EVENT_BYTES / 2);
    let bytes: Vec<u8> = (0..EVENT_BYTES).map(|at| (at * 31 % 251) as u8).collect();
    let text = |text| Event::Text { stream: Stream::Stdout, offset: 1 << 20, text };
    let cases = [
        ("lines of text", text(words.as_str()), words.len()),
        ("a newline every other byte", text(newlines.as_str()), newlines.len()),
        (
            "bytes as base64",
            Event::Bytes { stream: Stream::Stdout, offset: 1 << 20, bytes: &bytes },
            bytes.len(),
        ),
    ];
    println!("| Event of 64 KiB | Written by us | serde_json | Copy | ours ÷ serde_json |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (name, event, length) in cases {
        let source = vec![b'x'; length];
        let mut out = Vec::with_capacity(8 * EVENT_BYTES);
        let mut times: [Vec<Duration>; 3] = Default::default();
        for _ in 0..ROUNDS {
            times[0].push(timed(&mut out, |out| json_writer::put(out, &event).is_ok()));
            times[1].push(timed(&mut out, |out| serde_json::to_writer(out, &event).is_ok()));
            times[2].push(timed(&mut out, |out| {
                out.extend_from_slice(&source);
                true
            }));
        }
        let [ours, theirs, copy] = times.map(median);
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "| {name} | {} | {} | {} | {ratio:.2} |",
            speed(length, ours),
            speed(length, theirs),
            speed(length, copy)
        );
    }
}

fn timed(out: &mut Vec<u8>, write: impl Fn(&mut Vec<u8>) -> bool) -> Duration {
    let began = Instant::now();
    for _ in 0..EVENTS_PER_ROUND {
        out.clear();
        assert!(write(black_box(out)), "an event that cannot be written");
    }
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn speed(length: usize, time: Duration) -> String {
    format!("{:.0} MB/s", (length * EVENTS_PER_ROUND) as f64 / time.as_secs_f64() / 1e6)
}
