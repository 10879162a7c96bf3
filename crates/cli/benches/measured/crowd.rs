//! Many at once, each with its next command as soon as the last is answered.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::measured::samples::Samples;

#[derive(Debug, Default)]
pub struct Crowd {
    worked: Duration,
    times: Vec<Duration>,
}

impl Crowd {
    /// Has each member do its work again and again, for this long.
    pub fn work<M: Send>(&mut self, time: Duration, members: &mut [M], work: impl Fn(&mut M) + Sync) {
        let start_line = Barrier::new(members.len());
        let (work, start_line) = (&work, &start_line);
        std::thread::scope(|scope| {
            let threads: Vec<_> = members
                .iter_mut()
                .map(|member| {
                    scope.spawn(move || {
                        work(member);
                        start_line.wait();
                        repeat(time, || work(member))
                    })
                })
                .collect();
            for thread in threads {
                self.times.extend(thread.join().expect("a member of the crowd"));
            }
        });
        self.worked += time;
    }

    pub fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.worked.as_secs_f64()
    }

    pub fn samples(self) -> Samples {
        Samples::new(self.times)
    }
}

/// How long each took; what ends too late does not count.
fn repeat(time: Duration, mut work: impl FnMut()) -> Vec<Duration> {
    let begun = Instant::now();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        work();
        if begun.elapsed() > time {
            return times;
        }
        times.push(start.elapsed());
    }
}
