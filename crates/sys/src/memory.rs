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
    use std::fs::File;
    use std::io::Write as _;

    use rustix::mm::{MapFlags, ProtFlags, mmap};

    use super::*;

    const LENGTH: usize = 64 * 1024;

    /// A mapping of a file, all of its pages in memory.
    fn mapped(file: &File, access: ProtFlags) -> *mut u8 {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping, of a file that nobody shortens.
        unsafe { mmap(std::ptr::null_mut(), LENGTH, access, flags, file, 0) }.unwrap().cast()
    }

    /// How much of the mapping that begins there is in memory, in kilobytes.
    fn in_memory(at: *mut u8) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begins = format!("{:x}-", at.addr());
        let of_it = smaps.lines().skip_while(|line| !line.starts_with(&begins));
        let rss = of_it.into_iter().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn what_can_be_read_again_is_let_go_and_what_was_written_stays() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; LENGTH]).unwrap();
        let code = mapped(&file, ProtFlags::READ);
        let data = mapped(&file, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: within the mapping, which is this test's alone.
        unsafe { data.write(8) };
        let segment = |at: *mut u8, flags| libc::Elf64_Phdr {
            p_type: libc::PT_LOAD,
            p_flags: flags,
            p_offset: 0,
            p_vaddr: at.expose_provenance() as u64,
            p_paddr: 0,
            p_filesz: LENGTH as u64,
            p_memsz: LENGTH as u64,
            p_align: 1,
        };
        let headers = [segment(code, libc::PF_R | libc::PF_X), segment(data, libc::PF_R | libc::PF_W)];
        // SAFETY: all zeroes is a description of nothing.
        let mut info: libc::dl_phdr_info = unsafe { std::mem::zeroed() };
        (info.dlpi_phdr, info.dlpi_phnum) = (headers.as_ptr(), 2);
        assert_eq!((in_memory(code), in_memory(data)), (64, 64));
        // SAFETY: the description is valid for the time of the call.
        unsafe { release_object(&raw mut info, 0, std::ptr::null_mut()) };
        assert_eq!((in_memory(code), in_memory(data)), (0, 64));
        // SAFETY: as above.
        let read = unsafe { (code.read(), data.read(), data.add(1).read()) };
        assert_eq!(read, (7, 8, 7));
    }

    #[test]
    fn a_program_goes_on_without_the_pages_it_has_used() {
        release_program();
        assert_eq!(format!("{:?}", vec![1, 2]), "[1, 2]");
    }
}
