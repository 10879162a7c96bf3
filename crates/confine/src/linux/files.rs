//! Landlock: a second layer over the mounts, and the only one where there are no namespaces.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::{Part, Step};
use crate::plan::{Mount, Plan, Root, What};

/// The newest that this file was written for; an older kernel enforces what it knows of it.
const NEWEST: ABI = ABI::V7;

pub(super) fn check() -> Result<(), String> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Which version of Landlock the kernel has; 0 is none.
pub fn abi() -> i32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: without a structure, the call returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Paths are as this process sees them now: inside, if it has entered namespaces.
pub(super) fn enter(plan: &Plan, namespaces: bool) -> Result<(), Step> {
    let step = |error: String| Step::new(Part::Landlock, "restrict files", error);
    rules(plan, namespaces).map_err(step)
}

fn rules(plan: &Plan, namespaces: bool) -> Result<(), String> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .map_err(shown)?;
    // In a network namespace of its own, loopback is to work.
    if plan.own_network && !namespaces {
        rules = rules.handle_access(AccessNet::from_all(NEWEST)).map_err(shown)?;
    }
    let mut rules = rules.create().map_err(shown)?;
    // What covers a part of something visible exists as a mount only in namespaces.
    let covered: Vec<&Path> = match namespaces {
        true => Vec::new(),
        false => plan.mounts.iter().filter(|mount| is_cover(mount)).map(|mount| mount.at.as_path()).collect(),
    };
    for mount in &plan.mounts {
        rules = allow_mount(rules, mount, namespaces, &covered)?;
    }
    if namespaces {
        // Whatever is mounted may be read; what may be written is listed.
        let access = match plan.root {
            Root::Assembled => AccessFs::from_read(NEWEST),
            Root::Overlay(_) | Root::Writable(_) => AccessFs::from_all(NEWEST),
        };
        rules = allow(rules, Path::new("/"), access)?;
    }
    rules.restrict_self().map(drop).map_err(shown)
}

fn is_cover(mount: &Mount) -> bool {
    matches!(mount.what, What::Private | What::Hidden)
}

fn allow_mount(
    rules: RulesetCreated,
    mount: &Mount,
    namespaces: bool,
    covered: &[&Path],
) -> Result<RulesetCreated, String> {
    let read = AccessFs::from_read(NEWEST);
    let all = AccessFs::from_all(NEWEST);
    // The kernel's own files are bounded by who may look into whom.
    let kernel = read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    match &mount.what {
        What::Bind { from, writable, .. } => {
            let place = if namespaces { &mount.at } else { from };
            // What the engine is told through is written, though nothing can be made there.
            let is_channel = mount.at == Path::new(crate::plan::IO_PATH);
            let access = match (writable, is_channel) {
                (true, _) => all,
                (false, true) => read | AccessFs::WriteFile,
                (false, false) => read,
            };
            if *writable {
                allow(rules, place, access)
            } else {
                allow_uncovered(rules, place, access, covered)
            }
        }
        What::Device => allow(rules, &mount.at, kernel),
        What::Proc if namespaces => allow(rules, &mount.at, kernel),
        // The machine's own: there, root could write the kernel's settings.
        What::Proc => allow(rules, &mount.at, read),
        What::Terminals if namespaces => allow(rules, &mount.at, kernel),
        What::Terminals => allow(allow(rules, &mount.at, kernel)?, Path::new("/dev/ptmx"), kernel),
        What::Private if namespaces => allow(rules, &mount.at, all),
        What::Private | What::Hidden | What::Link { .. } | What::Alias { .. } => Ok(rules),
    }
}

/// A directory without what is covered in it: where something is, its neighbours are allowed one by one.
fn allow_uncovered(
    mut rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    covered: &[&Path],
) -> Result<RulesetCreated, String> {
    if covered.contains(&path) {
        return Ok(rules);
    }
    if !covered.iter().any(|cover| cover.starts_with(path)) {
        return allow(rules, path, access);
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        rules = allow_uncovered(rules, &entry.path(), access, covered)?;
    }
    Ok(rules)
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What is not there needs no rule. A rule for a file cannot speak of directories.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(place, access)).map_err(shown)
}
