//! What each filter says about each call. The programs are run as the kernel runs them, so a call is judged by its
//! filter alone, whatever other layer would refuse it too.

use super::*;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;
#[cfg(target_arch = "riscv64")]
const ARCH: u32 = 0xC000_00F3;

const ALLOWED: Result<(), i32> = Ok(());
const REFUSED: Result<(), i32> = Err(libc::EPERM);
const UNKNOWN: Result<(), i32> = Err(libc::ENOSYS);

/// What the kernel does with a call: the error that the caller sees.
fn verdict(filter: Filter, call: i64, arguments: &[u64]) -> Result<(), i32> {
    let mut data = vec![call as u32, ARCH, 0, 0];
    for index in 0..6 {
        let argument = arguments.get(index).copied().unwrap_or(0);
        data.extend([argument as u32, (argument >> 32) as u32]);
    }
    for program in programs(filter).unwrap() {
        match outcome(&program, &data) {
            libc::SECCOMP_RET_ALLOW => {}
            other if other & libc::SECCOMP_RET_ACTION_FULL == libc::SECCOMP_RET_ERRNO => {
                return Err((other & libc::SECCOMP_RET_DATA) as i32);
            }
            other => panic!("{call} {arguments:x?}: {other:x}"),
        }
    }
    Ok(())
}

/// Runs a program, as far as filters use the language.
fn outcome(program: &[sock_filter], data: &[u32]) -> u32 {
    let (mut at, mut value) = (0, 0);
    loop {
        let step = &program[at];
        at += 1;
        let holds = match u32::from(step.code) {
            code if code == libc::BPF_RET | libc::BPF_K => return step.k,
            code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                value = data[step.k as usize / 4];
                continue;
            }
            code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                value &= step.k;
                continue;
            }
            code if code == libc::BPF_JMP | libc::BPF_JA => {
                at += step.k as usize;
                continue;
            }
            code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => value == step.k,
            code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => value >= step.k,
            code if code == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K => value > step.k,
            other => panic!("an instruction that no filter uses: {other:x}"),
        };
        at += usize::from(if holds { step.jt } else { step.jf });
    }
}

fn filters(which: impl Fn(&Filter) -> bool) -> Vec<Filter> {
    let mut all = Vec::new();
    for guest in [Guest::Session, Guest::Errand] {
        for (network, namespaces) in [(false, false), (false, true), (true, false), (true, true)] {
            all.push(Filter { guest, network, namespaces });
        }
    }
    all.retain(which);
    all
}

/// One line for each case: the call, its arguments, what comes of it.
type Case<'a> = (i64, &'a [u64], Result<(), i32>);

fn hold(which: impl Fn(&Filter) -> bool, cases: &[Case<'_>]) {
    for filter in filters(which) {
        for (call, arguments, expected) in cases {
            assert_eq!(verdict(filter, *call, arguments), *expected, "{call} {arguments:x?} {filter:?}");
        }
    }
}

fn every(calls: &[i64], expected: Result<(), i32>) -> Vec<Case<'static>> {
    calls.iter().map(|call| (*call, &[][..], expected)).collect()
}

#[test]
fn no_guest_reaches_the_kernel_its_clock_its_mounts_or_other_memory() {
    let kernel = [
        libc::SYS_acct,
        libc::SYS_bpf,
        libc::SYS_delete_module,
        libc::SYS_finit_module,
        libc::SYS_init_module,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_uring_setup,
        libc::SYS_kexec_file_load,
        libc::SYS_kexec_load,
        libc::SYS_lookup_dcookie,
        libc::SYS_perf_event_open,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_reboot,
        libc::SYS_setdomainname,
        libc::SYS_sethostname,
        libc::SYS_swapoff,
        libc::SYS_swapon,
        libc::SYS_syslog,
        libc::SYS_vhangup,
    ];
    let clock =
        [libc::SYS_adjtimex, libc::SYS_clock_adjtime, libc::SYS_clock_settime, libc::SYS_settimeofday];
    let keys = [libc::SYS_add_key, libc::SYS_keyctl, libc::SYS_request_key];
    let files = [
        libc::SYS_chroot,
        libc::SYS_fanotify_init,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fsopen,
        libc::SYS_fspick,
        libc::SYS_mount,
        libc::SYS_mount_setattr,
        libc::SYS_move_mount,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_open_tree,
        467, // open_tree_attr
        libc::SYS_pivot_root,
        libc::SYS_setns,
        libc::SYS_umount2,
        libc::SYS_unshare,
    ];
    let processes = [
        libc::SYS_kcmp,
        libc::SYS_migrate_pages,
        libc::SYS_move_pages,
        libc::SYS_pidfd_getfd,
        libc::SYS_process_madvise,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_ptrace,
        libc::SYS_userfaultfd,
    ];
    for calls in [&kernel[..], &clock, &keys, &files, &processes] {
        hold(|_| true, &every(calls, REFUSED));
    }
    #[cfg(target_arch = "x86_64")]
    hold(
        |_| true,
        &every(&[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt, libc::SYS_uselib], REFUSED),
    );
    let usual = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_execve,
        libc::SYS_wait4,
        libc::SYS_kill,
        libc::SYS_mkdirat,
    ];
    hold(|_| true, &every(&usual, ALLOWED));
}

#[test]
fn no_guest_makes_namespaces_or_calls_whose_arguments_are_hidden() {
    let fork = libc::SIGCHLD as u64;
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        0x80, // CLONE_NEWTIME
    ];
    for flag in flags {
        hold(|_| true, &[(libc::SYS_clone, &[fork | u64::from(flag as u32)], REFUSED)]);
    }
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
    hold(|_| true, &[(libc::SYS_clone, &[fork], ALLOWED), (libc::SYS_clone, &[thread], ALLOWED)]);
    hold(|_| true, &every(&[libc::SYS_clone3, libc::SYS_openat2], UNKNOWN));
    // The first call that is younger than the list, and the second set of numbers.
    hold(|_| true, &every(&[470, 1000, 0x4000_0000 | libc::SYS_read], UNKNOWN));
    hold(|_| true, &every(&[libc::SYS_landlock_restrict_self], ALLOWED));
}

#[test]
fn terminals_and_personalities_are_not_taken_over() {
    let high = 0xffff_ffff_0000_0000;
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD] {
        let request = u64::from(request as u32);
        hold(
            |_| true,
            &[(libc::SYS_ioctl, &[0, request], REFUSED), (libc::SYS_ioctl, &[0, request | high], REFUSED)],
        );
    }
    hold(
        |_| true,
        &[
            (libc::SYS_ioctl, &[0, u64::from(libc::TIOCGWINSZ as u32)], ALLOWED),
            (libc::SYS_personality, &[0xffff_ffff], ALLOWED),
            (libc::SYS_personality, &[0], ALLOWED),
            (libc::SYS_personality, &[libc::ADDR_NO_RANDOMIZE as u64], ALLOWED),
            (libc::SYS_personality, &[libc::READ_IMPLIES_EXEC as u64], REFUSED),
        ],
    );
}

#[test]
fn no_guest_leaves_a_program_with_its_rights() {
    for bit in [u64::from(libc::S_ISUID), u64::from(libc::S_ISGID)] {
        let (mode, create) = (0o755 | bit, libc::O_CREAT as u64);
        let unnamed = libc::O_TMPFILE as u64;
        hold(
            |_| true,
            &[
                (libc::SYS_fchmod, &[3, mode], REFUSED),
                (libc::SYS_fchmodat, &[3, 0, mode], REFUSED),
                (452, &[3, 0, mode], REFUSED), // fchmodat2
                (libc::SYS_mknodat, &[3, 0, mode], REFUSED),
                (libc::SYS_openat, &[3, 0, create, mode], REFUSED),
                (libc::SYS_openat, &[3, 0, unnamed, mode], REFUSED),
                // Without a new file, there is no such argument.
                (libc::SYS_openat, &[3, 0, libc::O_DIRECTORY as u64, mode], ALLOWED),
            ],
        );
        #[cfg(target_arch = "x86_64")]
        hold(
            |_| true,
            &[
                (libc::SYS_chmod, &[0, mode], REFUSED),
                (libc::SYS_creat, &[0, mode], REFUSED),
                (libc::SYS_mknod, &[0, mode], REFUSED),
                (libc::SYS_open, &[0, create, mode], REFUSED),
                (libc::SYS_open, &[0, unnamed, mode], REFUSED),
                (libc::SYS_open, &[0, 0, mode], ALLOWED),
            ],
        );
    }
    hold(
        |_| true,
        &[
            (libc::SYS_mknodat, &[3, 0, 0o1755], ALLOWED),
            (libc::SYS_openat, &[3, 0, libc::O_CREAT as u64, 0o1755], ALLOWED),
        ],
    );
}

#[test]
fn an_errand_changes_no_modes_owners_times_or_attributes() {
    let mut calls = vec![
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        452, // fchmodat2
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        463, // setxattrat
        466, // removexattrat
        469, // file_setattr
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
    ]);
    hold(|filter| filter.guest == Guest::Errand, &every(&calls, REFUSED));
    hold(|filter| filter.guest == Guest::Session, &every(&calls, ALLOWED));
}

#[test]
fn without_namespaces_nothing_is_shared_by_number() {
    let calls = [
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        libc::SYS_msgctl,
        libc::SYS_msgget,
        libc::SYS_msgrcv,
        libc::SYS_msgsnd,
        libc::SYS_semctl,
        libc::SYS_semget,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_shmget,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
        libc::SYS_setpriority,
        libc::SYS_ioprio_set,
    ];
    hold(|filter| !filter.namespaces, &every(&calls, REFUSED));
    hold(|filter| filter.namespaces, &every(&calls, ALLOWED));
    // Its own limits, and those of others.
    let (own, others) = ([(libc::SYS_prlimit64, &[0][..], ALLOWED)], (libc::SYS_prlimit64, &[4321][..]));
    hold(|_| true, &own);
    hold(|filter| !filter.namespaces, &[(others.0, others.1, REFUSED)]);
    hold(|filter| filter.namespaces, &[(others.0, others.1, ALLOWED)]);
    // What ends an errand then is its process group.
    let leaves = [libc::SYS_setsid, libc::SYS_setpgid];
    let is_held = |filter: &Filter| filter.guest == Guest::Errand && !filter.namespaces;
    hold(is_held, &every(&leaves, REFUSED));
    hold(|filter| !is_held(filter), &every(&leaves, ALLOWED));
}

#[test]
fn sockets_are_of_the_families_that_something_else_bounds() {
    let [unix, inet, inet6] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6].map(|family| family as u64);
    let [netlink, packet, vsock] =
        [libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK].map(|family| family as u64);
    let (stream, raw) = (libc::SOCK_STREAM as u64, libc::SOCK_RAW as u64);
    let (route, audit) = (libc::NETLINK_ROUTE as u64, libc::NETLINK_AUDIT as u64);
    for filter in filters(|_| true) {
        let Filter { guest, network, namespaces } = filter;
        let (session, held) = (guest == Guest::Session, guest == Guest::Session && namespaces);
        let internet = held || network;
        for (family, kind, protocol, allowed) in [
            (unix, stream, 0, held),
            (inet, stream, 0, internet),
            (inet6, stream, 0, internet),
            (inet, stream | libc::SOCK_CLOEXEC as u64, 0, internet),
            (inet, raw, 0, false),
            (inet6, raw | libc::SOCK_CLOEXEC as u64, 0, false),
            (unix, raw, 0, false),
            (netlink, raw, route, session && namespaces),
            (netlink, raw, audit, false),
            (packet, raw, 0, false),
            (vsock, stream, 0, false),
        ] {
            let expected = if allowed { ALLOWED } else { REFUSED };
            let got = verdict(filter, libc::SYS_socket, &[family, kind, protocol]);
            assert_eq!(got, expected, "{family} {kind} {protocol} {filter:?}");
        }
    }
    hold(
        |_| true,
        &[
            (libc::SYS_socketpair, &[unix, stream], ALLOWED),
            (libc::SYS_socketpair, &[netlink, raw], REFUSED),
            (libc::SYS_socketpair, &[inet, stream], REFUSED),
        ],
    );
}
