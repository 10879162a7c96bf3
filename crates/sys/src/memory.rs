//! Memory of this process.

use std::ffi::{c_int, c_void};

/// Lets go of the pages of this program and its libraries that were used until now: code and constants. What is
/// used again comes back from the page cache.
///
/// The kernel maps many pages around each that is used. For a process that waits for most of its life, these are most
/// of its memory.
pub fn release_program() {
    // SAFETY: the callback only reads what it is given, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(release_object), std::ptr::null_mut()) };
}

/// The program, or one of its libraries.
unsafe extern "C" fn release_object(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the C library passes a valid description for the time of the call.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr, std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
    };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        // What the loader has filled in is in a segment that can be written.
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = (base + header.p_vaddr) / page * page;
        let end = (base + header.p_vaddr + header.p_memsz).next_multiple_of(page);
        // SAFETY: this is mapped from a file and never written, so dropped pages are read from it again.
        // A mapping that does not allow it, such as the kernel's own, stays as it is.
        let _ = unsafe {
            let address = std::ptr::with_exposed_provenance_mut(start as usize);
            rustix::mm::madvise(address, (end - start) as usize, rustix::mm::Advice::LinuxDontNeed)
        };
    }
    0
}

#[cfg(test)]
mod tests {
    /// Pages of code that are mapped in this process, in kilobytes.
    fn mapped() -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut total, mut counts) = (0, false);
        for line in smaps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [range, flags, ..] if range.contains('-') => counts = *flags == "r-xp",
                ["Rss:", kilobytes, "kB"] if counts => total += kilobytes.parse::<u64>().unwrap(),
                _ => {}
            }
        }
        total
    }

    #[test]
    fn what_was_released_is_not_mapped_and_still_works() {
        let before = mapped();
        super::release_program();
        let after = mapped();
        assert!(after < before / 2, "{before} kB before, {after} kB after");
        assert_eq!(format!("{:?}", vec![1, 2]), "[1, 2]");
    }
}
