//! From what is wanted to what is done: a policy becomes a plan. Pure; [`crate::linux`] carries it out.
//!
//! A plan is a list of mounts that make up everything the processes can see, and the facts that
//! the other layers need. What is not mounted does not exist inside.

use std::path::{Component, Path, PathBuf};

use trl_protocol::isolation::{Isolation, Net, Profile};

/// Where the directory through which the host talks to its shell appears inside.
pub const IO_PATH: &str = "/run/trl-io";

/// Where the directory of an errand appears inside, so that nothing tells where it lies outside.
pub const ERRAND_PATH: &str = "/answer";

/// Where the daemon's proxy listens in a session whose network is a list of hosts: the loopback is its own.
pub const PROXY_PORT: u16 = 3128;

/// What the plan has to know about the machine and the session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Setting {
    /// Where the session works; absolute and without symbolic links.
    pub workspace: PathBuf,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The daemon's own directories: never visible.
    pub hidden: Vec<PathBuf>,
    /// The directory through which the host talks to its shell.
    pub io_dir: Option<PathBuf>,
    /// Most bytes in the private file systems together.
    pub disk: Option<u64>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Dir,
    File,
    Link(PathBuf),
}

/// Looks at a path without following a symbolic link at its end.
pub type Look<'a> = &'a dyn Fn(&Path) -> Option<Kind>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub root: Root,
    /// Parents before what is below them.
    pub mounts: Vec<Mount>,
    /// The network is its own and has nothing but loopback.
    pub own_network: bool,
    /// Something outside answers on [`PROXY_PORT`] of that loopback.
    pub proxy: bool,
    /// Most bytes in the private file systems together.
    pub private_bytes: u64,
    pub kind: Guest,
}

/// What is confined; the system calls that it may make depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guest {
    Session,
    /// A program that does one small task: no sockets but pairs, and no change of modes or owners.
    Errand,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Made of the mounts alone.
    Assembled,
    /// An unpacked system; changes are temporary.
    Overlay(PathBuf),
    /// An unpacked system; changes stay.
    Writable(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Inside.
    pub at: PathBuf,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A part of the machine.
    Bind {
        from: PathBuf,
        writable: bool,
        required: bool,
    },
    /// A device of the machine.
    Device,
    /// Empty at first, writable, gone with the session.
    Private,
    /// Empty and read-only, whatever is there.
    Hidden,
    Link {
        to: PathBuf,
    },
    /// Processes of this namespace.
    Proc,
    /// Terminals of this namespace.
    Terminals,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{field}: `{path}` is not an absolute path")]
    Relative { field: &'static str, path: String },
    #[error("{field}: `{path}` cannot be given to an isolated session: it holds the daemon's own files")]
    Own { field: &'static str, path: String },
    #[error("{field}: there is no `{path}`")]
    NotThere { field: &'static str, path: String },
}

/// What programs need to run. A link stays a link.
const PROGRAMS: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu", "/run/current-system"];
/// What the profile `workspace` shows beyond [`PROGRAMS`].
const SYSTEM: &[&str] = &["/etc", "/opt", "/var", "/srv", "/snap"];
/// The files in `/etc` that programs need to run.
const FEW_OF_ETC: &[&str] = &[
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
const SECRETS: &[&str] = &[
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
    "/var/lib/kubelet",
    "/var/lib/lxd",
    "/var/lib/mysql",
    "/var/lib/postgresql",
    "/var/lib/private",
    "/var/lib/rancher",
    "/var/lib/sudo",
    "/var/log",
    "/var/mail",
    "/var/run",
    "/var/spool",
    "/var/snap",
];
/// How programs find names on the network.
const RESOLVER: &[&str] =
    &["/etc/resolv.conf", "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf"];
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// What of `/proc` speaks of the whole machine and could be changed or tell secrets.
const HIDDEN_PROC: &[&str] = &[
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
const READ_ONLY_PROC: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"];
/// Private file systems are in memory.
const DEFAULT_PRIVATE_BYTES: u64 = 1 << 30;

/// The plan of a session.
pub fn session(isolation: &Isolation, setting: &Setting, look: Look<'_>) -> Result<Plan, PlanError> {
    let mut builder = Builder { mounts: Vec::new(), look };
    match &isolation.root {
        Some(_) => {}
        None => builder.system(isolation.profile, isolation.net == Net::Full),
    }
    builder.kernel();
    builder.private(setting.home.as_deref());
    builder.workspace(setting)?;
    builder.named("read", &isolation.read, false, setting)?;
    let root = builder.root(isolation, setting)?;
    let write: Vec<String> =
        isolation.write.iter().filter(|path| Some(*path) != isolation.root.as_ref()).cloned().collect();
    builder.named("write", &write, true, setting)?;
    for path in &isolation.hide {
        builder.add(absolute("hide", path)?, What::Hidden);
    }
    builder.own(setting);
    Ok(Plan {
        root,
        mounts: builder.sorted(),
        own_network: isolation.net != Net::Full,
        proxy: matches!(isolation.net, Net::Allow(_)),
        private_bytes: setting.disk.unwrap_or(DEFAULT_PRIVATE_BYTES),
        kind: Guest::Session,
    })
}

/// The plan of a program that does one small task in an empty directory, with a few files to read.
pub fn errand(dir: &Path, read: &[PathBuf], network: bool, look: Look<'_>) -> Plan {
    let mut builder = Builder { mounts: Vec::new(), look };
    builder.system(Profile::Strict, network);
    builder.kernel();
    builder.private(None);
    builder.add(ERRAND_PATH, What::Bind { from: dir.to_owned(), writable: true, required: true });
    for path in read {
        builder.add(path, What::Bind { from: path.clone(), writable: false, required: true });
    }
    Plan {
        root: Root::Assembled,
        mounts: builder.sorted(),
        own_network: !network,
        proxy: false,
        private_bytes: 64 << 20,
        kind: Guest::Errand,
    }
}

struct Builder<'a> {
    mounts: Vec<Mount>,
    look: Look<'a>,
}

impl Builder<'_> {
    fn add(&mut self, at: impl Into<PathBuf>, what: What) {
        self.mounts.push(Mount { at: at.into(), what });
    }

    /// What is there of the machine's own, read-only.
    fn show(&mut self, path: &str) {
        let path = Path::new(path);
        match (self.look)(path) {
            Some(Kind::Link(to)) if path.parent() == Some(Path::new("/")) => {
                self.add(path, What::Link { to })
            }
            Some(_) => self.add(path, What::Bind { from: path.into(), writable: false, required: false }),
            None => {}
        }
    }

    fn system(&mut self, profile: Profile, network: bool) {
        PROGRAMS.iter().for_each(|path| self.show(path));
        match profile {
            Profile::Strict => FEW_OF_ETC.iter().for_each(|path| self.show(path)),
            Profile::None | Profile::Workspace => {
                SYSTEM.iter().for_each(|path| self.show(path));
                for secret in SECRETS {
                    if matches!((self.look)(Path::new(secret)), Some(Kind::Dir | Kind::File)) {
                        self.add(*secret, What::Hidden);
                    }
                }
            }
        }
        self.show("/sys/devices/system/cpu");
        if network {
            RESOLVER.iter().for_each(|path| self.show_target(path));
        }
    }

    /// A file that may be a link to a place that is not visible: its target appears in its place.
    fn show_target(&mut self, path: &str) {
        match (self.look)(Path::new(path)) {
            // Below a directory that is visible as it is, the link is visible, too.
            Some(Kind::Link(_)) if self.is_visible(Path::new(path)) => {}
            Some(_) => self.add(path, What::Bind { from: path.into(), writable: false, required: false }),
            None => {}
        }
    }

    fn is_visible(&self, path: &Path) -> bool {
        self.mounts.iter().any(|mount| {
            matches!(mount.what, What::Bind { .. }) && path.starts_with(&mount.at) && path != mount.at
        })
    }

    /// Processes, devices, terminals.
    fn kernel(&mut self) {
        self.add("/proc", What::Proc);
        for path in READ_ONLY_PROC {
            self.add(*path, What::Bind { from: (*path).into(), writable: false, required: false });
        }
        for path in HIDDEN_PROC {
            if (self.look)(Path::new(path)).is_some() {
                self.add(*path, What::Hidden);
            }
        }
        for name in DEVICES {
            self.add(Path::new("/dev").join(name), What::Device);
        }
        self.add("/dev/pts", What::Terminals);
        self.add("/dev/shm", What::Private);
        let links = [
            ("/dev/ptmx", "pts/ptmx"),
            ("/dev/fd", "/proc/self/fd"),
            ("/dev/stdin", "/proc/self/fd/0"),
            ("/dev/stdout", "/proc/self/fd/1"),
            ("/dev/stderr", "/proc/self/fd/2"),
        ];
        for (at, to) in links {
            self.add(at, What::Link { to: to.into() });
        }
    }

    fn private(&mut self, home: Option<&Path>) {
        self.add("/tmp", What::Private);
        self.add("/var/tmp", What::Private);
        if let Some(home) = home.filter(|home| *home != Path::new("/")) {
            self.add(home, What::Private);
        }
    }

    /// Writable, unless that would give away what the profile keeps: a directory that holds the home
    /// directory, or the system itself.
    fn workspace(&mut self, setting: &Setting) -> Result<(), PlanError> {
        let workspace = &setting.workspace;
        if let Some(own) = setting.hidden.iter().find(|own| workspace.starts_with(own)) {
            return Err(PlanError::Own { field: "working_dir", path: own.display().to_string() });
        }
        if is_shared(workspace, setting) {
            return Ok(());
        }
        let from = workspace.clone();
        self.add(workspace, What::Bind { from, writable: true, required: true });
        Ok(())
    }

    fn named(
        &mut self,
        field: &'static str,
        paths: &[String],
        writable: bool,
        setting: &Setting,
    ) -> Result<(), PlanError> {
        for path in paths {
            let at = absolute(field, path)?;
            if setting.hidden.iter().any(|own| at.starts_with(own)) {
                return Err(PlanError::Own { field, path: path.clone() });
            }
            if (self.look)(&at).is_none() {
                return Err(PlanError::NotThere { field, path: path.clone() });
            }
            self.add(&at, What::Bind { from: at.clone(), writable, required: true });
        }
        Ok(())
    }

    fn root(&mut self, isolation: &Isolation, setting: &Setting) -> Result<Root, PlanError> {
        let Some(root) = &isolation.root else { return Ok(Root::Assembled) };
        let at = absolute("root", root)?;
        if setting.hidden.iter().any(|own| at.starts_with(own)) {
            return Err(PlanError::Own { field: "root", path: root.clone() });
        }
        match (self.look)(&at) {
            Some(Kind::Dir) if isolation.write.contains(root) => Ok(Root::Writable(at)),
            Some(Kind::Dir) => Ok(Root::Overlay(at)),
            Some(Kind::File | Kind::Link(_)) | None => {
                Err(PlanError::NotThere { field: "root", path: root.clone() })
            }
        }
    }

    /// The daemon's own directories, and the way to the shell.
    fn own(&mut self, setting: &Setting) {
        for own in &setting.hidden {
            if self.is_visible(own) || self.mounts.iter().any(|mount| mount.at == *own) {
                self.add(own, What::Hidden);
            }
        }
        if let Some(io_dir) = &setting.io_dir {
            self.add(IO_PATH, What::Bind { from: io_dir.clone(), writable: false, required: true });
        }
    }

    /// Parents first; at one place, what was added last is on top.
    fn sorted(mut self) -> Vec<Mount> {
        self.mounts.sort_by_key(|mount| mount.at.components().count());
        self.mounts
    }
}

/// Whether a directory is more than one session's own: it would give away the home directory or the system.
fn is_shared(dir: &Path, setting: &Setting) -> bool {
    let holds_home = setting.home.as_ref().is_some_and(|home| home.starts_with(dir));
    let is_system =
        dir.components().count() <= 2 && PROGRAMS.iter().chain(SYSTEM).any(|system| Path::new(system) == dir);
    let is_kernel = ["/proc", "/sys", "/dev", "/run"].iter().any(|kernel| dir.starts_with(kernel));
    holds_home || is_system || is_kernel || dir == Path::new("/") || dir == Path::new("/tmp")
}

fn absolute(field: &'static str, path: &str) -> Result<PathBuf, PlanError> {
    let given = Path::new(path);
    let is_plain = given.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !given.is_absolute() || !is_plain {
        return Err(PlanError::Relative { field, path: path.to_owned() });
    }
    Ok(given.components().collect())
}
