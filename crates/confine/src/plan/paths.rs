//! Paths as they are named, and where they lead.

use std::path::{Component, Path, PathBuf};

use super::{Kind, Look, PlanError};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The path without symbolic links; None if it leads nowhere.
pub(super) fn resolved(path: &Path, look: Look<'_>) -> Option<PathBuf> {
    let mut links = 0;
    let mut rest: Vec<PathBuf> = vec![path.to_owned()];
    let mut reached = PathBuf::from("/");
    // The next part is at the end.
    while let Some(next) = rest.pop() {
        let mut parts = next.components();
        let Some(part) = parts.next() else { continue };
        rest.push(parts.as_path().to_owned());
        match part {
            Component::RootDir | Component::Prefix(_) => reached = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => drop(reached.pop()),
            Component::Normal(name) => {
                let at = reached.join(name);
                match look(&at)? {
                    Kind::Link(to) => {
                        links += 1;
                        if links > MOST_LINKS {
                            return None;
                        }
                        rest.push(to);
                    }
                    Kind::Dir | Kind::File => reached = at,
                }
            }
        }
    }
    Some(reached)
}

/// Absolute, and nothing but names: no `..`.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

pub(super) fn absolute(field: &'static str, path: &str) -> Result<PathBuf, PlanError> {
    let given = Path::new(path);
    match is_plain(given) {
        true => Ok(given.components().collect()),
        false => Err(PlanError::Relative { field, path: path.to_owned() }),
    }
}

/// Refuses what is everything, or of the kernel.
pub(super) fn check_kernel(field: &'static str, named: &str, at: &Path) -> Result<(), PlanError> {
    let path = named.to_owned();
    if at == Path::new("/") {
        return Err(PlanError::Everything { field, path });
    }
    match at.starts_with("/proc") || at.starts_with("/dev") {
        true => Err(PlanError::Kernel { field, path }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(path: &Path) -> Option<Kind> {
        Some(match path.to_str()? {
            "/a" | "/a/b" | "/c" | "/c/d" => Kind::Dir,
            "/a/file" => Kind::File,
            "/to-c" => Kind::Link("/c".into()),
            "/a/up" => Kind::Link("../c/./d".into()),
            "/a/b/far" => Kind::Link("../../to-c/d".into()),
            "/loop" => Kind::Link("/loop".into()),
            "/nowhere" => Kind::Link("/gone".into()),
            _ => return None,
        })
    }

    #[test]
    fn links_lead_where_the_kernel_says() {
        for (path, expected) in [
            ("/", Some("/")),
            ("/a/b", Some("/a/b")),
            ("/a/file", Some("/a/file")),
            ("/to-c", Some("/c")),
            ("/to-c/d", Some("/c/d")),
            ("/a/up", Some("/c/d")),
            ("/a/b/far", Some("/c/d")),
            ("/a/gone", None),
            ("/loop", None),
            ("/nowhere", None),
        ] {
            assert_eq!(resolved(Path::new(path), &look).as_deref(), expected.map(Path::new), "{path}");
        }
    }
}
