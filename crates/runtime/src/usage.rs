//! What the daemon's own process uses. Zero where the system does not tell.

use std::fs;

pub(crate) fn memory_rss_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

pub(crate) fn open_fds() -> u64 {
    let entries = fs::read_dir("/proc/self/fd").or_else(|_| fs::read_dir("/dev/fd"));
    // One of them is the directory that is being read.
    entries.map_or(0, |entries| (entries.count() as u64).saturating_sub(1))
}
