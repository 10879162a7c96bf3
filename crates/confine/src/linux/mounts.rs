//! Everything that the processes can see: the plan's mounts, carried out in a fresh mount namespace.
//!
//! Every source is opened before the first mount hides anything. Places inside are walked below the
//! new root without following a link out of it, so neither a link in the workspace nor one in the
//! system can put a mount somewhere else.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, access, mkdirat, openat, openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change,
    move_mount, open_tree, unmount,
};

use super::{Part, Step};
use crate::plan::{Mount, Plan, Root, What};

/// Where the new root is put together before it becomes `/`.
const STAGE: &str = "/tmp";
/// Private directories that appear below something that cannot be written.
const LAYERS: &str = ".layers";

const SAFE: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// What a mount is made of, opened while the machine's own files are still visible.
enum Source {
    Tree(OwnedFd),
    /// To be made in place.
    Later,
    /// Not there, and not needed.
    Absent,
}

/// Replaces everything that this process sees by what the plan says.
pub(super) fn enter(plan: &Plan) -> Result<(), Step> {
    let step = |what: &str| Step::of(Part::Mounts, what);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(step("make mounts private"))?;
    let sources = plan.mounts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let own_root = open_root(&plan.root).map_err(Step::of(Part::Given, "open the root directory"))?;
    let private = tmpfs(plan.private_bytes).map_err(step("make a private file system"))?;
    let root = stage(own_root, private).map_err(step("make a root directory"))?;
    for (mount, source) in plan.mounts.iter().zip(sources) {
        root.put(mount, source)
            .map_err(|error| Step::of(Part::Mounts, &format!("mount {}", mount.at.display()))(error))?;
    }
    // The owner of a directory without permissions cannot enter it; that takes a capability.
    rustix::fs::chmodat(&root.private, LAYERS, Mode::empty(), AtFlags::empty())
        .map_err(step("close the private layers"))?;
    rustix::process::fchdir(&root.top).map_err(step("enter the root directory"))?;
    rustix::process::pivot_root(".", ".").map_err(step("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("leave the old root"))?;
    rustix::process::chdir("/").map_err(step("enter /"))?;
    if plan.root == Root::Assembled {
        set_attributes(CWD, c"/", MountAttrFlags::MOUNT_ATTR_RDONLY | SAFE, false)
            .map_err(step("make / read-only"))?;
    }
    Ok(())
}

/// The new root, and the private file system that its private directories are in.
struct Stage {
    top: OwnedFd,
    private: OwnedFd,
    next_layer: std::cell::Cell<u32>,
}

/// A system of its own, opened while the machine's own files are still visible.
enum OwnRoot {
    None,
    /// Below the temporary layer of an overlay.
    Below(OwnedFd),
    Tree(OwnedFd),
}

fn open_root(root: &Root) -> rustix::io::Result<OwnRoot> {
    Ok(match root {
        Root::Assembled => OwnRoot::None,
        Root::Overlay(path) => OwnRoot::Below(find_outside(path)?),
        Root::Writable(path) => {
            let tree = clone_found(&find_outside(path)?, false)?;
            set_attributes(&tree, c"", SAFE, true)?;
            OwnRoot::Tree(tree)
        }
    })
}

fn stage(root: OwnRoot, private: OwnedFd) -> rustix::io::Result<Stage> {
    attach(&private, CWD, Path::new(STAGE))?;
    mkdirat(&private, LAYERS, Mode::RWXU)?;
    let next_layer = std::cell::Cell::new(0);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = match root {
        OwnRoot::None => openat(&private, ".", flags, Mode::empty())?,
        OwnRoot::Tree(tree) => on_new_root(&private, &tree)?,
        OwnRoot::Below(lower) => {
            mkdirat(&private, ".layers/upper", Mode::RWXU | Mode::from_raw_mode(0o055))?;
            mkdirat(&private, ".layers/work", Mode::RWXU)?;
            let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
            // By its descriptor: the path may be hidden by now, or have signs in it that separate directories.
            fsconfig_set_string(&overlay, "lowerdir", format!("/proc/self/fd/{}", lower.as_raw_fd()))?;
            fsconfig_set_string(&overlay, "upperdir", format!("{STAGE}/.layers/upper"))?;
            fsconfig_set_string(&overlay, "workdir", format!("{STAGE}/.layers/work"))?;
            fsconfig_set_flag(&overlay, "userxattr")?;
            fsconfig_create(&overlay)?;
            on_new_root(&private, &fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, SAFE)?)?
        }
    };
    Ok(Stage { top, private, next_layer })
}

/// A root that is a mount of its own, below the private file system.
fn on_new_root(private: &OwnedFd, tree: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    mkdirat(private, ".root", Mode::RWXU | Mode::from_raw_mode(0o055))?;
    attach(tree, private.as_fd(), Path::new(".root"))?;
    openat(private, ".root", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn open(mount: &Mount) -> Result<Source, Step> {
    let tree = match &mount.what {
        // Of the new /proc, not of the old one.
        What::Bind { from, .. } if from.starts_with("/proc") => return Ok(Source::Later),
        What::Bind { from, required, .. } => match bound_tree(from, *required) {
            Ok(tree) => tree,
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) if !required => return Ok(Source::Absent),
            Err(error) => {
                return Err(Step::of(Part::Given, &format!("open {}", from.display()))(error));
            }
        },
        What::Device => match device(&mount.at) {
            Ok(tree) => tree,
            Err(_) => return Ok(Source::Absent),
        },
        What::Private
        | What::Hidden
        | What::Link { .. }
        | What::Alias { .. }
        | What::Proc
        | What::Terminals => return Ok(Source::Later),
    };
    if let What::Bind { writable, .. } = &mount.what {
        let read_only = if *writable { MountAttrFlags::empty() } else { MountAttrFlags::MOUNT_ATTR_RDONLY };
        set_attributes(&tree, c"", SAFE | read_only, true)
            .map_err(Step::of(Part::Mounts, &format!("restrict {}", mount.at.display())))?;
    }
    Ok(Source::Tree(tree))
}

/// What the session is given was resolved before: a link that is on the way now was put there since, by somebody who
/// may write there.
fn bound_tree(path: &Path, required: bool) -> rustix::io::Result<OwnedFd> {
    if !required {
        return clone_tree(path, true);
    }
    let found = find_outside(path)?;
    let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode).is_dir();
    let needed = if is_dir { Access::EXEC_OK } else { Access::READ_OK };
    access(format!("/proc/self/fd/{}", found.as_raw_fd()), needed)?;
    clone_found(&found, true)
}

fn find_outside(path: &Path) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn clone_found(found: &OwnedFd, recursive: bool) -> rustix::io::Result<OwnedFd> {
    let below = if recursive { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(found, "", flags | OpenTreeFlags::AT_EMPTY_PATH | below)
}

fn clone_tree(path: &Path, recursive: bool) -> rustix::io::Result<OwnedFd> {
    let below = if recursive { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
    open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | below)
}

fn device(path: impl AsRef<Path>) -> rustix::io::Result<OwnedFd> {
    clone_tree(path.as_ref(), false)
}

fn tmpfs(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let config = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&config, "mode", "0755")?;
    fsconfig_set_string(&config, "size", bytes.to_string())?;
    // Empty files take the kernel's memory too.
    fsconfig_set_string(&config, "nr_inodes", (bytes / 4096 + 1024).to_string())?;
    fsconfig_create(&config)?;
    fsmount(&config, FsMountFlags::FSMOUNT_CLOEXEC, SAFE)
}

fn kernel_files(
    kind: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let config = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&config, *name, *value)?;
    }
    fsconfig_create(&config)?;
    fsmount(&config, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn attach(tree: &OwnedFd, dir: BorrowedFd<'_>, place: &Path) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    if place.as_os_str().is_empty() {
        return move_mount(tree, "", dir, "", flags | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH);
    }
    move_mount(tree, "", dir, place, flags)
}

impl Stage {
    fn put(&self, mount: &Mount, source: Source) -> rustix::io::Result<()> {
        let at = &mount.at;
        match (&mount.what, source) {
            (_, Source::Absent) => Ok(()),
            (What::Link { to }, _) => self.link(at, to),
            // Where it cannot be made, the thing itself has its own name.
            (What::Alias { to }, _) => match self.find(at) {
                Ok(_) => Ok(()),
                Err(_) => self.link(at, to).or(Ok(())),
            },
            (_, Source::Tree(tree)) => self.attach(&tree, at),
            (What::Bind { from, writable, .. }, Source::Later) => self.rebind(from, at, *writable),
            (What::Private, _) => self.attach(&self.private_directory(mode_of(at))?, at),
            (What::Hidden, _) => self.hide(at),
            (What::Proc, _) => {
                let attributes = SAFE | MountAttrFlags::MOUNT_ATTR_NOEXEC;
                self.attach(&kernel_files("proc", &[], attributes)?, at)
            }
            (What::Terminals, _) => {
                let options = [("ptmxmode", "0666"), ("mode", "0620")];
                let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
                self.attach(&kernel_files("devpts", &options, attributes)?, at)
            }
            (What::Device, Source::Later) => Ok(()),
        }
    }

    /// A part of what is mounted already.
    fn rebind(&self, from: &Path, at: &Path, writable: bool) -> rustix::io::Result<()> {
        let place = match self.find(from) {
            Ok(place) => place,
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(&place, "", flags)?;
        if !writable {
            set_attributes(&tree, c"", MountAttrFlags::MOUNT_ATTR_RDONLY | SAFE, true)?;
        }
        self.attach(&tree, at)
    }

    /// An empty directory or an empty file in the place of whatever is there.
    fn hide(&self, at: &Path) -> rustix::io::Result<()> {
        let place = match self.find(at) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode).is_dir();
        let cover = if is_dir { self.private_directory(0o555)? } else { self.empty_file()? };
        set_attributes(&cover, c"", MountAttrFlags::MOUNT_ATTR_RDONLY | SAFE, false)?;
        attach(&cover, place.as_fd(), Path::new(""))
    }

    /// A directory of the private file system, as a mount of its own.
    fn private_directory(&self, mode: u32) -> rustix::io::Result<OwnedFd> {
        let name = self.next_layer();
        mkdirat(&self.private, &*name, Mode::from_raw_mode(mode))?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        open_tree(&self.private, &*name, flags)
    }

    fn empty_file(&self) -> rustix::io::Result<OwnedFd> {
        let name = self.next_layer();
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        drop(openat(&self.private, &*name, flags, Mode::from_raw_mode(0o444))?);
        open_tree(&self.private, &*name, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
    }

    fn next_layer(&self) -> String {
        let number = self.next_layer.get();
        self.next_layer.set(number + 1);
        format!("{LAYERS}/{number}")
    }

    fn attach(&self, tree: &OwnedFd, at: &Path) -> rustix::io::Result<()> {
        let is_dir = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir();
        let place = self.make(at, is_dir)?;
        attach(tree, place.as_fd(), Path::new(""))
    }

    fn link(&self, at: &Path, to: &Path) -> rustix::io::Result<()> {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return Err(Errno::INVAL) };
        let parent = self.make(parent, true)?;
        match symlinkat(to, &parent, name) {
            // The system of `root` has one, or is not to be changed.
            Ok(()) | Err(Errno::EXIST | Errno::ROFS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What is at a place inside; links lead nowhere but inside.
    fn find(&self, at: &Path) -> rustix::io::Result<OwnedFd> {
        let inside = at.strip_prefix("/").unwrap_or(at);
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.top, inside, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// Opens a place to mount on; what is missing on the way is made.
    fn make(&self, at: &Path, is_dir: bool) -> rustix::io::Result<OwnedFd> {
        match self.find(at) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        let parts: Vec<_> = at
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name),
                Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
            })
            .collect();
        let mut reached = PathBuf::from("/");
        for (index, name) in parts.iter().enumerate() {
            let parent = self.find(&reached)?;
            reached.push(name);
            if self.find(&reached).is_ok() {
                continue;
            }
            if index + 1 < parts.len() || is_dir {
                mkdirat(&parent, *name, Mode::from_raw_mode(0o755))?;
            } else {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                drop(openat(&parent, *name, flags, Mode::from_raw_mode(0o444))?);
            }
        }
        self.find(at)
    }
}

/// As such directories usually are.
fn mode_of(at: &Path) -> u32 {
    let is_shared = ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|shared| Path::new(shared) == at);
    if is_shared { 0o1777 } else { 0o700 }
}

/// `mount_setattr`, which only takes away.
fn set_attributes(
    dir: impl AsFd,
    path: &CStr,
    attributes: MountAttrFlags,
    recursive: bool,
) -> rustix::io::Result<()> {
    let change = libc::mount_attr {
        attr_set: u64::from(attributes.bits()),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let mut flags = AtFlags::empty();
    if path.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    let recursive = if recursive { libc::AT_RECURSIVE as u32 } else { 0 };
    // SAFETY: the path ends with a zero, and the structure has the size that is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir.as_fd().as_raw_fd(),
            path.as_ptr(),
            flags.bits() | recursive,
            &raw const change,
            size_of_val(&change),
        )
    };
    super::checked(result).map(drop)
}
