//! What everything below the host has used: as the session's groups account for it, else as `/proc` tells.
//!
//! Without groups it is close, not exact: a process that was never waited for takes what it used with it.

use rustix::param::clock_ticks_per_second;
use trl_confine::linux::cgroups;
use trl_protocol::session::Usage;

use crate::tree;

pub(crate) fn of_session(accounted: cgroups::Usage) -> Usage {
    let seen = ProcessTotals::below_host();
    let cgroups::Usage { cpu_s, memory_bytes, memory_peak_bytes, processes, throttled_s } = accounted;
    Usage {
        cpu_s: cpu_s.or(Some(seen.cpu_s)),
        memory_bytes: memory_bytes.or(Some(seen.memory_bytes)),
        memory_peak_bytes: memory_peak_bytes.or(Some(seen.memory_peak_bytes)),
        processes: processes.or(Some(seen.processes)),
        written_bytes: Some(seen.written_bytes),
        throttled_s,
    }
}

#[derive(Debug, Default)]
struct ProcessTotals {
    cpu_s: f64,
    memory_bytes: u64,
    memory_peak_bytes: u64,
    processes: u64,
    written_bytes: u64,
}

impl ProcessTotals {
    fn below_host() -> ProcessTotals {
        let mut seen = ProcessTotals::default();
        for process in tree::descendants(std::process::id() as i32) {
            let read = |file: &str| {
                trl_sys::process::read_text(format!("/proc/{}/{file}", process.pid)).unwrap_or_default()
            };
            let status = read("status");
            seen.processes += 1;
            seen.cpu_s += cpu_seconds(&read("stat"));
            seen.memory_bytes += number(&status, "VmRSS:").unwrap_or(0) * 1024;
            seen.memory_peak_bytes += number(&status, "VmHWM:").unwrap_or(0) * 1024;
            // With what those have written that it has waited for.
            seen.written_bytes += number(&read("io"), "wchar:").unwrap_or(0);
        }
        let gone = ended();
        seen.cpu_s += gone.cpu_s;
        seen.memory_peak_bytes = seen.memory_peak_bytes.max(gone.memory_peak_bytes);
        seen
    }
}

/// Of those that the host has waited for, and of those that they have.
fn ended() -> ProcessTotals {
    // SAFETY: all zeros is a valid value, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    ProcessTotals {
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        memory_peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        ..ProcessTotals::default()
    }
}

/// Of the process and of those that it has waited for.
fn cpu_seconds(stat: &str) -> f64 {
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / clock_ticks_per_second() as f64
}

fn number(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 50 25 25 20 0 1";
        assert_eq!(cpu_seconds(stat), 200.0 / clock_ticks_per_second() as f64);
        assert_eq!(number("VmHWM:\t  12 kB\nVmRSS:\t 3 kB", "VmRSS:"), Some(3));
        assert_eq!(number("rchar: 1\nwchar: 42", "wchar:"), Some(42));
        assert_eq!(number("", "wchar:"), None);
    }
}
