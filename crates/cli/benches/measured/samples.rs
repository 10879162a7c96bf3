//! Times, in turns: what the machine does meanwhile befalls both sides alike.

use std::time::Duration;

/// Seconds, sorted.
#[derive(Debug)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn new(times: impl IntoIterator<Item = Duration>) -> Samples {
        let mut seconds: Vec<f64> = times.into_iter().map(|time| time.as_secs_f64()).collect();
        assert!(!seconds.is_empty(), "something was measured");
        seconds.sort_by(f64::total_cmp);
        Samples(seconds)
    }

    pub fn median(&self) -> f64 {
        self.percentile(50)
    }

    pub fn percentile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}

/// `rounds` times a batch of one and a batch of the other, after one of each that does not count.
///
/// Batches, because the engine does some of its work after the reply: the next command
/// has to wait for that, and would not if the floor came between any two.
pub fn in_turns(
    rounds: usize,
    batch: usize,
    mut ours: impl FnMut() -> Duration,
    mut floor: impl FnMut() -> Duration,
) -> (Samples, Samples) {
    ours();
    floor();
    let (mut of_ours, mut of_floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        of_ours.extend((0..batch).map(|_| ours()));
        of_floor.extend((0..batch).map(|_| floor()));
    }
    (Samples::new(of_ours), Samples::new(of_floor))
}
