//! What other processes can learn about this one through `/proc`.

use std::io;
use std::ops::Range;

/// Keeps other processes of the same user from reading this one's memory, environment and open
/// files, and from tracing it. Root still can. Programs that this process starts are not affected.
#[cfg(target_os = "linux")]
pub fn forbid_inspection() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

#[cfg(not(target_os = "linux"))]
pub fn forbid_inspection() -> io::Result<()> {
    Ok(())
}

/// Overwrites what the two functions find in each argument, and in each `NAME=value` of the environment, that this
/// process was started with; they are given in order. Later readers of the environment find `*` there, so whatever is needed of it must be
/// copied before.
///
/// # Safety
///
/// No other thread may run, and nothing may hold a reference into the original arguments or environment.
/// Those that `std::env` returns are copies.
#[cfg(target_os = "linux")]
pub unsafe fn overwrite(
    mut in_arguments: impl FnMut(&[u8]) -> Option<Range<usize>>,
    mut in_environment: impl FnMut(&[u8]) -> Option<Range<usize>>,
) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let unreadable = || io::Error::other("/proc/self/stat does not tell where the environment is");
    // The name before may contain spaces. The fields after it begin with the third; 48 to 51 are the
    // begin and end of the arguments and of the environment.
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(unreadable)?;
    let places: Vec<usize> =
        fields.split_whitespace().skip(45).take(4).filter_map(|field| field.parse().ok()).collect();
    let [arguments, arguments_end, environment, environment_end] = places[..] else {
        return Err(unreadable());
    };
    type Find<'a> = &'a mut dyn FnMut(&[u8]) -> Option<Range<usize>>;
    let arguments: (usize, usize, Find<'_>) = (arguments, arguments_end, &mut in_arguments);
    for (begin, end, find) in [arguments, (environment, environment_end, &mut in_environment)] {
        if begin == 0 || end < begin {
            return Err(unreadable());
        }
        // SAFETY: the kernel placed this process's arguments and environment there, writable and for
        // its whole life; the caller vouches that nobody else uses them now.
        let memory = unsafe {
            std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut::<u8>(begin), end - begin)
        };
        for entry in memory.split_mut(|byte| *byte == 0) {
            if let Some(secret) = find(entry).and_then(|range| entry.get_mut(range)) {
                secret.fill(b'*');
            }
        }
    }
    Ok(())
}

/// Other systems show a process's environment to root and its own user only, and have no `/proc`.
///
/// # Safety
///
/// None is needed here; it is the same function as elsewhere.
#[cfg(not(target_os = "linux"))]
pub unsafe fn overwrite(
    _: impl FnMut(&[u8]) -> Option<Range<usize>>,
    _: impl FnMut(&[u8]) -> Option<Range<usize>>,
) -> io::Result<()> {
    Ok(())
}
