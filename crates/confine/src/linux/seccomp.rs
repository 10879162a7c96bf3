//! System calls that no confined process needs and that lead around the other layers.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use super::{Part, Step};
use crate::plan::Guest;

/// What a filter depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filter {
    pub guest: Guest,
    /// The network is the machine's own.
    pub network: bool,
    /// Namespaces hold the process, so changes of modes stay inside and sockets lead nowhere.
    pub namespaces: bool,
}

/// The kernel, its modules, its clock, its namespaces, its keys, and memory of other processes.
const FORBIDDEN: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_HERE: &[i64] = &[];
/// Landlock does not know of these: they change files that cannot be opened for writing.
#[cfg(target_arch = "x86_64")]
const CHANGES_OF_FILES_HERE: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const CHANGES_OF_FILES_HERE: &[i64] = &[];
const CHANGES_OF_FILES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];
/// What leads to other processes or to objects without a path where no namespace holds the process.
const SHARED_WITHOUT_NAMESPACES: &[i64] = &[
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Whoever guesses the number of an object need not ask for it.
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
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
];
/// Not in the C library's list for every system yet. From 424 on, all systems count alike.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;
/// Calls that are younger than this list do not exist inside.
const FIRST_UNKNOWN: u32 = 470;
/// A program with one of these runs with the rights of its owner or group.
const SET_ID_BITS: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];
/// `open` makes a file with these alone; otherwise its mode means nothing.
const MAKES_FILE: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
/// Calls that make or change a file: which argument has the mode and, for some, which has the flags.
const MODES: &[(i64, u8, Option<u8>)] = &[
    (libc::SYS_fchmod, 1, None),
    (libc::SYS_fchmodat, 2, None),
    (FCHMODAT2, 2, None),
    (libc::SYS_mknodat, 2, None),
    (libc::SYS_openat, 3, Some(2)),
];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(i64, u8, Option<u8>)] = &[
    (libc::SYS_chmod, 1, None),
    (libc::SYS_creat, 1, None),
    (libc::SYS_mknod, 1, None),
    (libc::SYS_open, 2, Some(1)),
];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(i64, u8, Option<u8>)] = &[];
/// `mode`'s file types and `clone`'s namespaces.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32 as u64
    | 0x80;

pub(super) fn is_known_here() -> Result<(), String> {
    TargetArch::try_from(std::env::consts::ARCH)
        .map(drop)
        .map_err(|_| format!("seccomp filters are not known for {}", std::env::consts::ARCH))
}

pub(super) fn enter(filter: Filter) -> Result<(), Step> {
    let step = |what: &'static str| move |error: String| Step::new(Part::Seccomp, what, error);
    for program in programs(filter).map_err(step("build a filter"))? {
        seccompiler::apply_filter(&program).map_err(|error| step("install a filter")(error.to_string()))?;
    }
    Ok(())
}

fn programs(filter: Filter) -> Result<Vec<BpfProgram>, String> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let always = FORBIDDEN.iter().chain(FORBIDDEN_HERE);
    refused.extend(always.map(|call| (*call, Vec::new())));
    refused.insert(libc::SYS_clone, namespaces_in(0)?);
    refused.insert(
        libc::SYS_ioctl,
        [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD].map(ioctl).into_iter().collect::<Result<_, _>>()?,
    );
    refused.insert(libc::SYS_personality, other_personalities()?);
    refused.insert(libc::SYS_socket, sockets(filter)?);
    refused.insert(libc::SYS_socketpair, vec![rule(0, Op::Ne, libc::AF_UNIX as u64)?]);
    for (call, mode, flags) in MODES.iter().chain(MODES_HERE) {
        refused.insert(*call, set_id_modes(*mode, *flags)?);
    }
    if !filter.namespaces {
        refused.extend(SHARED_WITHOUT_NAMESPACES.iter().map(|call| (*call, Vec::new())));
        refused.insert(libc::SYS_prlimit64, vec![rule(0, Op::Ne, 0)?]);
    }
    if filter.guest == Guest::Errand && !filter.namespaces {
        // It is ended by its process group, which it must not leave.
        refused.extend([(libc::SYS_setsid, Vec::new()), (libc::SYS_setpgid, Vec::new())]);
    }
    if filter.guest == Guest::Errand {
        let changes = CHANGES_OF_FILES.iter().chain(CHANGES_OF_FILES_HERE);
        refused.extend(changes.map(|call| (*call, Vec::new())));
    }
    // A filter cannot look into the structures that these take; without them, programs use clone and openat.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new()), (libc::SYS_openat2, Vec::new())]);
    Ok(vec![compiled(refused, libc::EPERM)?, compiled(absent, libc::ENOSYS)?, unknown_calls()])
}

fn compiled(calls: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}

fn condition(argument: u8, op: Op, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, Len::Dword, op, value).map_err(|error| error.to_string())
}

fn rule(argument: u8, op: Op, value: u64) -> Result<SeccompRule, String> {
    SeccompRule::new(vec![condition(argument, op, value)?]).map_err(|error| error.to_string())
}

/// One rule for each flag, since a rule compares all of its bits.
fn namespaces_in(argument: u8) -> Result<Vec<SeccompRule>, String> {
    (0..32)
        .map(|bit| 1_u64 << bit)
        .filter(|flag| NEW_NAMESPACES & flag != 0)
        .map(|flag| rule(argument, Op::MaskedEq(flag), flag))
        .collect()
}

/// No program that others may run with the session's rights is left behind in the workspace.
fn set_id_modes(mode: u8, flags: Option<u8>) -> Result<Vec<SeccompRule>, String> {
    let has = |argument: u8, bits: u64| condition(argument, Op::MaskedEq(bits), bits);
    let mut rules = Vec::new();
    for bit in SET_ID_BITS {
        let set = has(mode, u64::from(bit))?;
        let cases = match flags {
            None => vec![vec![set]],
            Some(flags) => MAKES_FILE
                .iter()
                .map(|flag| Ok(vec![has(flags, *flag as u64)?, set.clone()]))
                .collect::<Result<_, String>>()?,
        };
        for case in cases {
            rules.push(SeccompRule::new(case).map_err(|error| error.to_string())?);
        }
    }
    Ok(rules)
}

fn ioctl(request: libc::Ioctl) -> Result<SeccompRule, String> {
    rule(1, Op::Eq, request as u32 as u64)
}

/// Asking (`0xffffffff`), the usual one, and without random addresses.
fn other_personalities() -> Result<Vec<SeccompRule>, String> {
    let conditions = [0xffff_ffff, 0, libc::ADDR_NO_RANDOMIZE as u64]
        .map(|allowed| condition(0, Op::Ne, allowed))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    Ok(vec![SeccompRule::new(conditions).map_err(|error| error.to_string())?])
}

/// Families that are refused: all but those that a namespace or a file permission bounds.
fn sockets(filter: Filter) -> Result<Vec<SeccompRule>, String> {
    let internet = [libc::AF_INET, libc::AF_INET6];
    let families: Vec<i32> = match filter {
        Filter { guest: Guest::Errand, network: false, .. } => Vec::new(),
        Filter { guest: Guest::Errand, network: true, .. } => internet.to_vec(),
        Filter { guest: Guest::Session, namespaces: true, .. } => {
            vec![libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        }
        // Nothing else keeps it from sockets that have a path: the daemon's own, a bus that starts programs.
        Filter { guest: Guest::Session, namespaces: false, network: true } => internet.to_vec(),
        Filter { guest: Guest::Session, namespaces: false, network: false } => Vec::new(),
    };
    let others =
        families.iter().map(|family| condition(0, Op::Ne, *family as u64)).collect::<Result<Vec<_>, _>>()?;
    if others.is_empty() {
        return Ok(Vec::new());
    }
    let mut rules = vec![SeccompRule::new(others).map_err(|error| error.to_string())?];
    // Of netlink only what lists interfaces and routes.
    let netlink = vec![
        condition(0, Op::Eq, libc::AF_NETLINK as u64)?,
        condition(2, Op::Ne, libc::NETLINK_ROUTE as u64)?,
    ];
    rules.push(SeccompRule::new(netlink).map_err(|error| error.to_string())?);
    let raw = vec![
        condition(1, Op::MaskedEq(0xf), libc::SOCK_RAW as u64)?,
        condition(0, Op::Ne, libc::AF_NETLINK as u64)?,
    ];
    rules.push(SeccompRule::new(raw).map_err(|error| error.to_string())?);
    Ok(rules)
}

/// Calls that this list does not know; among them a second set of numbers for all calls (x32).
fn unknown_calls() -> BpfProgram {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_UNKNOWN },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

#[cfg(test)]
mod tests;
