//! From what is wanted to what is done: a policy becomes a plan. Pure; [`crate::linux`] carries it out.
//!
//! A plan is a list of mounts that make up everything the processes can see, and the facts that
//! the other layers need. What is not mounted does not exist inside.
//!
//! Paths of the machine are resolved here, once. Whoever carries the plan out refuses a symbolic link on the way
//! to them: it was put there since.

mod paths;
mod system;

use std::path::{Path, PathBuf};

use trl_protocol::isolation::{Isolation, Net, Profile};

use paths::{absolute, check_kernel, is_plain, resolved};
pub use system::DEFAULT_PRIVATE_BYTES;
use system::{
    DEVICES, FEW_OF_ETC, HIDDEN_PROC, PROGRAMS, READ_ONLY_PROC, RESOLVER, SECRETS, SYSTEM, is_common,
    is_kernel, is_system,
};

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
    /// The same as it was asked for. Links may be on the way.
    pub working_dir: PathBuf,
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
    /// One of the daemon's own directories that only a mount keeps from the session, which may write around it.
    pub own_in_reach: Option<PathBuf>,
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
    /// A part of the machine. One that is required has no symbolic link on the way to it.
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
    /// Another name of something that is mounted.
    Alias {
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
    #[error(
        "`{path}` must be kept from the session, which could create it: create it first, or give the session no directory above it"
    )]
    OwnMissing { path: String },
    #[error("{field}: there is no `{path}`")]
    NotThere { field: &'static str, path: String },
    #[error("{field}: `{path}` cannot be given to an isolated session: name the directories that are needed")]
    Everything { field: &'static str, path: String },
    #[error("{field}: `{path}` cannot be given to an isolated session, which has its own /proc and /dev")]
    Kernel { field: &'static str, path: String },
    #[error("{field}: `{path}` is in the workspace and leads out of it, to `{to}`: name that path itself")]
    LeadsOut { field: &'static str, path: String, to: String },
}

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
    builder.hide(&isolation.hide, setting)?;
    let own_in_reach = builder.own_in_reach(setting);
    builder.own(setting, &root)?;
    Ok(Plan {
        root,
        own_in_reach,
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
    let from = |path: &Path| resolved(path, look).unwrap_or_else(|| path.to_owned());
    builder.add(ERRAND_PATH, What::Bind { from: from(dir), writable: true, required: true });
    for path in read {
        builder.add(path, What::Bind { from: from(path), writable: false, required: true });
    }
    Plan {
        root: Root::Assembled,
        mounts: builder.sorted(),
        own_network: !network,
        proxy: false,
        private_bytes: 64 << 20,
        own_in_reach: None,
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

    /// A home that is a part of the system or of the kernel stays what it is.
    fn private(&mut self, home: Option<&Path>) {
        self.add("/tmp", What::Private);
        self.add("/var/tmp", What::Private);
        let is_private =
            |home: &&Path| is_plain(home) && !is_kernel(home) && !is_system(home) && *home != Path::new("/");
        if let Some(home) = home.filter(is_private) {
            self.add(home, What::Private);
        }
    }

    /// Writable, unless that would give away what the profile keeps: a directory that holds the home
    /// directory, or the system itself.
    fn workspace(&mut self, setting: &Setting) -> Result<(), PlanError> {
        let Setting { workspace, working_dir, .. } = setting;
        if let Some(own) = setting.hidden.iter().find(|own| workspace.starts_with(own)) {
            return Err(PlanError::Own { field: "working_dir", path: own.display().to_string() });
        }
        if is_shared(workspace, setting) {
            return Ok(());
        }
        self.bind(workspace, workspace, true, setting);
        if working_dir != workspace && is_plain(working_dir) {
            self.add(working_dir, What::Alias { to: workspace.clone() });
        }
        Ok(())
    }

    /// A part of the machine that the session is given.
    fn bind(&mut self, at: &Path, from: &Path, writable: bool, setting: &Setting) {
        self.add(at, What::Bind { from: from.to_owned(), writable, required: true });
        if writable {
            self.pin_ways_to_own(at, from, setting);
        }
    }

    /// Directories on the way to the daemon's own become mounts: what is one cannot be renamed inside, so nothing
    /// else can be put in its place.
    fn pin_ways_to_own(&mut self, at: &Path, from: &Path, setting: &Setting) {
        for own in setting.hidden.iter().filter(|own| own.starts_with(from)) {
            let mut ways: Vec<&Path> = own.ancestors().skip(1).take_while(|way| *way != from).collect();
            ways.reverse();
            for way in ways.into_iter().filter(|way| (self.look)(way) == Some(Kind::Dir)) {
                let place = at.join(way.strip_prefix(from).unwrap_or(way));
                self.add(place, What::Bind { from: way.to_owned(), writable: true, required: true });
            }
        }
    }

    fn named(
        &mut self,
        field: &'static str,
        paths: &[String],
        writable: bool,
        setting: &Setting,
    ) -> Result<(), PlanError> {
        for path in paths {
            let at = self.nameable(field, path, setting)?;
            let is_own = |path: &Path| setting.hidden.iter().any(|own| path.starts_with(own));
            let from = match resolved(&at, self.look) {
                _ if is_own(&at) => return Err(PlanError::Own { field, path: path.clone() }),
                Some(from) if is_own(&from) => return Err(PlanError::Own { field, path: path.clone() }),
                Some(from) => from,
                None => return Err(PlanError::NotThere { field, path: path.clone() }),
            };
            if at.starts_with(&setting.workspace) && !from.starts_with(&setting.workspace) {
                let to = from.display().to_string();
                return Err(PlanError::LeadsOut { field, path: path.clone(), to });
            }
            check_kernel(field, path, &from)?;
            self.bind(&from, &from, writable, setting);
            if at != from {
                self.add(at, What::Alias { to: from });
            }
        }
        Ok(())
    }

    /// An absolute path that can be spoken of, with the workspace by its own name.
    fn nameable(&self, field: &'static str, path: &str, setting: &Setting) -> Result<PathBuf, PlanError> {
        let at = absolute(field, path)?;
        check_kernel(field, path, &at)?;
        Ok(match at.strip_prefix(&setting.working_dir) {
            Ok(below) if !setting.working_dir.as_os_str().is_empty() => setting.workspace.join(below),
            _ => at,
        })
    }

    fn hide(&mut self, paths: &[String], setting: &Setting) -> Result<(), PlanError> {
        for path in paths {
            let at = self.nameable("hide", path, setting)?;
            self.add(resolved(&at, self.look).unwrap_or(at), What::Hidden);
        }
        Ok(())
    }

    fn root(&mut self, isolation: &Isolation, setting: &Setting) -> Result<Root, PlanError> {
        let Some(root) = &isolation.root else { return Ok(Root::Assembled) };
        let at = absolute("root", root)?;
        check_kernel("root", root, &at)?;
        let not_there = || PlanError::NotThere { field: "root", path: root.clone() };
        let at = resolved(&at, self.look).ok_or_else(not_there)?;
        if setting.hidden.iter().any(|own| at.starts_with(own)) {
            return Err(PlanError::Own { field: "root", path: root.clone() });
        }
        match (self.look)(&at) {
            Some(Kind::Dir) if isolation.write.contains(root) => {
                self.pin_ways_to_own(Path::new("/"), &at, setting);
                Ok(Root::Writable(at))
            }
            Some(Kind::Dir) => Ok(Root::Overlay(at)),
            Some(Kind::File | Kind::Link(_)) | None => Err(not_there()),
        }
    }

    fn own_in_reach(&self, setting: &Setting) -> Option<PathBuf> {
        let holds = |mount: &Mount, own: &Path| matches!(&mount.what, What::Bind { from, writable: true, .. } if own.starts_with(from));
        setting.hidden.iter().find(|own| self.mounts.iter().any(|mount| holds(mount, own))).cloned()
    }

    /// The daemon's own directories, wherever they would be visible, and the way to the shell. Nothing can be mounted over
    /// what does not exist, so the session must not be able to create it.
    fn own(&mut self, setting: &Setting, root: &Root) -> Result<(), PlanError> {
        let mut shown: Vec<(PathBuf, PathBuf, bool)> = Vec::new();
        for mount in &self.mounts {
            if let What::Bind { from, writable, .. } = &mount.what {
                shown.push((mount.at.clone(), from.clone(), *writable));
            }
        }
        match root {
            Root::Assembled => {}
            Root::Overlay(from) => shown.push((PathBuf::from("/"), from.clone(), false)),
            Root::Writable(from) => shown.push((PathBuf::from("/"), from.clone(), true)),
        }
        let exists = |own: &Path| (self.look)(own).is_some();
        let is_below_another = |own: &Path| {
            setting.hidden.iter().any(|other| other != own && own.starts_with(other) && exists(other))
        };
        let mut places: Vec<PathBuf> = Vec::new();
        for own in &setting.hidden {
            for (at, from, writable) in &shown {
                match own.strip_prefix(from) {
                    Ok(below) if exists(own) => places.push(at.join(below)),
                    Ok(_) if *writable && !is_below_another(own) => {
                        return Err(PlanError::OwnMissing { path: own.display().to_string() });
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        places.sort();
        places.dedup();
        for place in places {
            self.add(place, What::Hidden);
        }
        if let Some(io_dir) = &setting.io_dir {
            self.add(IO_PATH, What::Bind { from: io_dir.clone(), writable: false, required: true });
        }
        Ok(())
    }

    /// Parents first; at one place, what was added last is on top. Other names come when everything has its own.
    fn sorted(mut self) -> Vec<Mount> {
        let is_alias = |mount: &Mount| matches!(mount.what, What::Alias { .. });
        self.mounts.sort_by_key(|mount| (is_alias(mount), mount.at.components().count()));
        self.mounts
    }
}

/// Whether a directory is more than one session's own: it would give away the home directory or the system.
fn is_shared(dir: &Path, setting: &Setting) -> bool {
    let holds_home = setting.home.as_ref().is_some_and(|home| home.starts_with(dir));
    holds_home || is_system(dir) || is_kernel(dir) || is_common(dir)
}
