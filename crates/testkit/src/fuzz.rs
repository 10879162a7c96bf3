//! Random damage to known inputs: whatever comes in, the code under test must not panic.
//!
//! Each target has a corpus, a directory of inputs that stays in the repository. An input is
//! kept for further damage if the target does with it what it has not done before, which it
//! tells by what it returns and, in a build for it, by the ways that it takes through the code.
//! A short run is a test; with `TRL_FUZZ_SECONDS` it goes on for so long and adds what is new
//! to the corpus. An input that makes the target panic is written
//! there too, so that every later run begins with it.

use std::collections::{HashSet, hash_map::DefaultHasher};
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::coverage::{Coverage, News};

/// Inputs of one short run.
const SHORT: usize = 4000;
/// Longer ones take long and find little.
const LONGEST: usize = 16 * 1024;
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 48, i64::MAX as u64, u64::MAX];

/// Numbers that can be repeated, of no great quality.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// From `TESTKIT_SEED`, or a fresh one; told by [`Dice::seed`] for a failure's message.
    pub fn from_environment() -> Dice {
        let given = std::env::var("TESTKIT_SEED").ok().and_then(|seed| seed.parse().ok());
        let fresh = || {
            u64::from(std::process::id()) * 0x9e37_79b9
                + u64::from(Instant::now().elapsed().subsec_nanos())
                + 1
        };
        Dice(given.unwrap_or_else(fresh).max(1))
    }

    pub fn seed(&self) -> u64 {
        self.0
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

/// Gives `target` every input of the corpus, then damaged ones. `words`: pieces that inputs are made of.
#[track_caller]
pub fn fuzz(corpus: &Path, words: &[&[u8]], target: impl Fn(&[u8]) -> String) {
    let seconds = std::env::var("TRL_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut dice = Dice::from_environment();
    let seed = dice.seed();
    let mut pool = read_corpus(corpus);
    assert!(!pool.is_empty(), "{}: the corpus is missing", corpus.display());
    let mut known = Known::default();
    for input in &pool {
        known.learn(|| examine(corpus, input, seed, &target));
    }
    for round in 0.. {
        if end.map_or(round >= SHORT, |end| Instant::now() >= end) {
            break;
        }
        let mut input = pool[dice.roll(pool.len())].clone();
        for _ in 0..=dice.roll(4) {
            let other = &pool[dice.roll(pool.len())];
            damage(&mut input, other, words, &mut dice);
        }
        input.truncate(LONGEST);
        let news = known.learn(|| examine(corpus, &input, seed, &target));
        if news == News::Edge && end.is_some() {
            keep(corpus, "found", &input);
        }
        if news > News::None {
            pool.push(input);
        }
    }
}

/// All that the target has done so far.
#[derive(Default)]
struct Known {
    told: HashSet<String>,
    coverage: Coverage,
}

impl Known {
    fn learn(&mut self, examine: impl FnOnce() -> String) -> News {
        Coverage::begin();
        let told = examine();
        let news = self.coverage.learn();
        if self.told.insert(told) { News::Edge } else { news }
    }
}

fn read_corpus(dir: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("an input of the corpus")).collect()
}

#[track_caller]
fn examine(corpus: &Path, input: &[u8], seed: u64, target: &impl Fn(&[u8]) -> String) -> String {
    catch_unwind(AssertUnwindSafe(|| target(input))).unwrap_or_else(|_| {
        let name = keep(corpus, "crash", input);
        panic!("TESTKIT_SEED={seed}: the input is in {}", corpus.join(name).display())
    })
}

fn keep(corpus: &Path, kind: &str, input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let name = format!("{kind}-{:016x}", hasher.finish());
    fs::write(corpus.join(&name), input).expect("the corpus can be written");
    name
}

fn damage(input: &mut Vec<u8>, other: &[u8], words: &[&[u8]], dice: &mut Dice) {
    let at = dice.roll(input.len() + 1);
    let until = (at + dice.roll(32)).min(input.len());
    match dice.roll(9) {
        0 => drop(input.drain(at..until)),
        1 => input.truncate(at),
        2 => {
            let copy = input[at..until].to_vec();
            input.splice(at..at, copy);
        }
        3 => drop(input.splice(at..at, words[dice.roll(words.len())].iter().copied())),
        4 => drop(input.splice(at..until, words[dice.roll(words.len())].iter().copied())),
        5 => {
            let from = dice.roll(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        6 => {
            let number = NUMBERS[dice.roll(NUMBERS.len())].to_le_bytes();
            let width = [1, 4, 8][dice.roll(3)];
            let end = (at + width).min(input.len());
            let taken = end - at;
            input[at..end].copy_from_slice(&number[..taken]);
        }
        7 => input.insert(at, dice.roll(256) as u8),
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << dice.roll(8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_and_its_input_kept() {
        let corpus = tempfile::tempdir().expect("a directory");
        fs::write(corpus.path().join("seed"), b"harmless text").expect("a file");
        let found = catch_unwind(AssertUnwindSafe(|| {
            fuzz(corpus.path(), &[b"bomb"], |input| {
                assert!(!input.windows(4).any(|window| window == b"bomb"), "boom");
                String::new()
            });
        }));
        assert!(found.is_err());
        let kept = read_corpus(corpus.path());
        assert!(kept.iter().any(|input| input.windows(4).any(|window| window == b"bomb")));
    }
}
