//! Whether there is memory left for one more session.
//!
//! Counts the memory that the machine has available and, if the daemon is in a control group
//! with a limit, what is left of that limit. If neither is known, memory counts as sufficient.

use std::fs;

use trl_protocol::{Code, Fault};

pub(super) fn check(least: u64) -> Result<(), Fault> {
    match (least > 0).then(free).flatten() {
        Some(free) if free < least => Err(Fault::new(
            Code::ResourcePressure,
            format!(
                "only {} MiB of memory are free, less than the {} MiB below which no session is begun; end some \
                 sessions or programs, or start the daemon with a smaller TRL_MIN_FREE_MEMORY",
                free >> 20,
                least >> 20
            ),
        )
        .with_details(serde_json::json!({ "free_bytes": free, "min_free_memory": least }))),
        _ => Ok(()),
    }
}

fn free() -> Option<u64> {
    let of_machine = trl_sys::process::read_text("/proc/meminfo").ok().and_then(|text| available(&text));
    [of_machine, left_in_group()].into_iter().flatten().min()
}

fn left_in_group() -> Option<u64> {
    let groups = trl_sys::process::read_text("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let read = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup{group}/{name}")).ok();
    left(&read("memory.max")?, &read("memory.current")?, &read("memory.stat")?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Files that nobody has used for long are given up first.
fn left(most: &str, current: &str, stat: &str) -> Option<u64> {
    let most: u64 = most.trim().parse().ok()?;
    let current: u64 = current.trim().parse().ok()?;
    let cached = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
    let cached: u64 = cached.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
    Some(most.saturating_sub(current.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_read_from_the_kernels_words() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert_eq!(left("max\n", "5\n", ""), None);
        assert_eq!(left("100\n", "70\n", "anon 1\ninactive_file 20\n"), Some(50));
        assert_eq!(left("100\n", "170\n", ""), Some(0));
    }

    #[test]
    fn the_limit_is_named_with_its_remedy() {
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(1), Ok(()));
        let fault = check(u64::MAX).unwrap_err();
        assert_eq!(fault.code, Code::ResourcePressure);
        assert!(fault.message.contains("TRL_MIN_FREE_MEMORY"), "{}", fault.message);
    }
}
