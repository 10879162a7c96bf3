//! The parts of this machine that an isolated session in a container is given.
//!
//! What may be named is decided by the plan of a local session ([`trl_confine::plan`]); here the engine mounts what
//! the plan binds. Mounts of an engine cannot be relied on to cover the daemon's own directories, so a directory
//! that holds them is refused.

use std::path::{Path, PathBuf};

use trl_confine::plan::{self, Kind, Look, Plan, Setting, What};
use trl_protocol::Fault;
use trl_protocol::isolation::Isolation;
use trl_protocol::wire::SessionSpec;

/// A directory or file of this machine, and where it appears in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    from: PathBuf,
    at: PathBuf,
    writable: bool,
}

impl Part {
    /// As the engine takes it.
    pub(super) fn mount(&self) -> Result<String, Fault> {
        let options = if self.writable { "" } else { ":ro" };
        Ok(format!("{}:{}{options}", mountable(&self.from)?, mountable(&self.at)?))
    }

    /// Where a path of this machine appears in it.
    fn place_of(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.from).ok().map(|below| match below.as_os_str().is_empty() {
            true => self.at.clone(),
            false => self.at.join(below),
        })
    }

    fn field(&self) -> &'static str {
        if self.writable { "write" } else { "read" }
    }
}

/// What covers something of the container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cover {
    Dir(String),
    File(String),
}

/// What the engine mounts, and what it covers then.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) parts: Vec<Part>,
    pub(super) covers: Vec<Cover>,
}

impl Given {
    pub(super) fn of(isolation: &Isolation, spec: &SessionSpec, look: Look<'_>) -> Result<Given, Fault> {
        let own = own_paths(spec);
        let setting = Setting {
            // The container has a workspace of its own. This one is never given, and nothing in it can be named.
            workspace: PathBuf::from("/proc"),
            hidden: own.clone(),
            ..Setting::default()
        };
        let plan = plan::session(isolation, &setting, look)
            .map_err(|error| refused(format!("param `isolation`: {error}")))?;
        let mut parts: Vec<Part> = Vec::new();
        for mount in &plan.mounts {
            let part = match &mount.what {
                // The machine's own system, which is not required, is that of the image here.
                What::Bind { from, writable, required: true } => {
                    Part { from: from.clone(), at: mount.at.clone(), writable: *writable }
                }
                // Its own name comes before any other.
                What::Alias { to } => match parts.iter().rfind(|part| part.at == *to) {
                    Some(part) => Part { at: mount.at.clone(), ..part.clone() },
                    None => continue,
                },
                _ => continue,
            };
            check(&part, &own, spec)?;
            parts.push(part);
        }
        let covers = covers(isolation, &parts, &plan, look)?;
        Ok(Given { parts, covers })
    }
}

/// The daemon's own directories and files, also by their real names.
fn own_paths(spec: &SessionSpec) -> Vec<PathBuf> {
    let both = |dir: &String| [Some(PathBuf::from(dir)), std::fs::canonicalize(dir).ok()];
    let mut paths: Vec<PathBuf> = spec.hidden_dirs.iter().flat_map(both).flatten().collect();
    paths.sort();
    paths.dedup();
    paths
}

fn check(part: &Part, own: &[PathBuf], spec: &SessionSpec) -> Result<(), Fault> {
    let (field, path) = (part.field(), part.at.display());
    let cannot = format!("param `isolation`: {field}: `{path}` cannot be given to a container");
    if part.from.starts_with("/sys") {
        return Err(refused(format!("{cannot}, which has its own /sys")));
    }
    if let Some(own) = own.iter().find(|own| own.starts_with(&part.from)) {
        let own = own.display();
        return Err(refused(format!(
            "{cannot}: it holds the daemon's own `{own}`; name what is needed in it"
        )));
    }
    // An earlier session could have put the link there.
    let shared = spec.mounts.iter().filter_map(|mount| mount.split(':').next());
    let mut shared = shared.filter(|dir| part.at.starts_with(dir) && !part.from.starts_with(dir));
    match shared.next() {
        Some(dir) => {
            let to = part.from.display();
            Err(refused(format!(
                "{cannot}: it is in `{dir}`, which sessions of this runtime share, and leads out of it, to `{to}`: \
                 name that path itself"
            )))
        }
        None => Ok(()),
    }
}

/// What is hidden, by every name that it has in the container: of the image, and of what is mounted.
fn covers(isolation: &Isolation, parts: &[Part], plan: &Plan, look: Look<'_>) -> Result<Vec<Cover>, Fault> {
    let mut covers: Vec<Cover> = Vec::new();
    // The plan hides also secrets of this machine that are in what is given.
    for hidden in plan.mounts.iter().filter(|mount| mount.what == What::Hidden) {
        for place in parts.iter().filter_map(|part| part.place_of(&hidden.at)) {
            let place = mountable(&place)?.to_owned();
            covers.push(match look(&hidden.at) {
                Some(Kind::File) => Cover::File(place),
                Some(Kind::Dir | Kind::Link(_)) => Cover::Dir(place),
                // The engine would make it, on this machine.
                None => return Err(refused(format!("param `isolation`: hide: there is no `{place}`"))),
            });
        }
    }
    let named = isolation.hide.iter().map(|path| Path::new(path).components().collect::<PathBuf>());
    for path in named.filter(|path| !parts.iter().any(|part| path.starts_with(&part.at))) {
        covers.push(Cover::Dir(mountable(&path)?.to_owned()));
    }
    covers.sort();
    covers.dedup();
    Ok(covers)
}

/// A colon would begin the next part of the engine's option.
pub(super) fn mountable(path: &Path) -> Result<&str, Fault> {
    path.to_str().filter(|path| path.starts_with('/') && !path.contains(':')).ok_or_else(|| {
        let path = path.display();
        refused(format!(
            "param `isolation`: `{path}` cannot be mounted; it must begin with / and have no colon"
        ))
    })
}

fn refused(message: String) -> Fault {
    Fault::invalid(message).with_details(serde_json::json!({ "field": "isolation" }))
}

/// Looks at a path of this machine without following a link at its end.
pub(super) fn look(path: &Path) -> Option<Kind> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.is_symlink() {
        return std::fs::read_link(path).ok().map(Kind::Link);
    }
    Some(if meta.is_dir() { Kind::Dir } else { Kind::File })
}
