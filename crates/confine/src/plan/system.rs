//! The parts of a system: what programs need, what is secret, what belongs to the kernel. Tables of paths.

use std::path::Path;

/// What programs need to run. A link stays a link.
pub(super) const PROGRAMS: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/run/current-system"];
/// What the profile `workspace` shows beyond [`PROGRAMS`].
pub(super) const SYSTEM: &[&str] = &["/etc", "/opt", "/var", "/srv", "/snap"];
/// The files in `/etc` that programs need to run.
pub(super) const FEW_OF_ETC: &[&str] = &[
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/protocols",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/zsh",
];
/// Secrets and other people's things below [`SYSTEM`]. An ordinary user cannot read most of them; root could.
pub(super) const SECRETS: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/cloud",
    "/etc/docker/key.json",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ipsec.secrets",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/pki/tls/private",
    "/etc/ppp",
    "/etc/rancher",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/var/backups",
    "/var/cache/debconf",
    "/var/crash",
    "/var/lib/cloud",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/lib/etcd",
    "/var/lib/incus",
    "/var/lib/kubelet",
    "/var/lib/libvirt",
    "/var/lib/lxd",
    "/var/lib/mysql",
    "/var/lib/postgresql",
    "/var/lib/private",
    "/var/lib/rabbitmq",
    "/var/lib/rancher",
    "/var/lib/redis",
    "/var/lib/samba",
    "/var/lib/sss",
    "/var/lib/sudo",
    "/var/log",
    "/var/mail",
    "/var/run",
    "/var/spool",
    "/var/snap",
];
/// How programs find names on the network.
pub(super) const RESOLVER: &[&str] =
    &["/etc/resolv.conf", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf"];
pub(super) const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// What of `/proc` speaks of the whole machine and could be changed or tell secrets.
pub(super) const HIDDEN_PROC: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
];
pub(super) const READ_ONLY_PROC: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];
/// Private file systems are in memory.
pub const DEFAULT_PRIVATE_BYTES: u64 = 1 << 30;
/// Where everybody keeps something.
const COMMON: &[&str] = &["/", "/tmp", "/var/tmp", "/home"];
/// Below these, everything belongs to the system.
const BELONGS_TO_SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/etc", "/boot"];
/// Except here, where people keep what they work on.
const SOURCES: &[&str] = &["/usr/src", "/usr/local/src"];

/// What the kernel shows of itself and of the machine's services. A session has its own.
pub(super) fn is_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev", "/run"].iter().any(|kernel| path.starts_with(kernel))
}

/// Whether a directory is a part of the system: writing there would change it for everybody.
pub(super) fn is_system(dir: &Path) -> bool {
    let is_source = SOURCES.iter().any(|source| dir.starts_with(source) && dir != Path::new(source));
    let belongs = BELONGS_TO_SYSTEM.iter().any(|system| dir.starts_with(system));
    let is_top = SYSTEM.iter().any(|system| Path::new(system) == dir);
    let is_part_of_var = dir.parent() == Some(Path::new("/var")) && dir != Path::new("/var/www");
    let is_secret = SECRETS.iter().any(|secret| dir.starts_with(secret));
    (belongs && !is_source) || is_top || is_part_of_var || is_secret
}

/// Whether more than one user or program keeps files directly in it.
pub(super) fn is_common(dir: &Path) -> bool {
    COMMON.iter().any(|common| Path::new(common) == dir)
}
