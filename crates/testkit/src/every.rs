//! Tables of cases in which one failure does not hide the others.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Runs `check` for each case, and fails at the end with all those that failed.
#[track_caller]
pub fn every<C: Debug>(cases: impl IntoIterator<Item = C>, mut check: impl FnMut(&C)) {
    let failed: Vec<String> = cases
        .into_iter()
        .filter(|case| catch_unwind(AssertUnwindSafe(|| check(case))).is_err())
        .map(|case| format!("{case:?}"))
        .collect();
    assert!(failed.is_empty(), "these cases fail, as told above:\n{}", failed.join("\n"));
}

/// Tests of a crate that are one binary: a file that no `mod` line names would never run.
///
/// A file is named by the file that stands for its directory: `main.rs` or `mod.rs` in it, or the
/// file beside it that has its name.
pub fn every_file_is_named(dir: &str) {
    let unnamed = unnamed_files(Path::new(dir));
    assert!(unnamed.is_empty(), "no `mod` line names {unnamed:?}");
}

fn unnamed_files(dir: &Path) -> Vec<PathBuf> {
    let beside = dir.with_extension("rs");
    let parents = [dir.join("main.rs"), dir.join("mod.rs"), beside];
    let names: String = parents.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let is_named =
        |module: &str| names.lines().any(|line| line.trim_end().ends_with(&format!("mod {module};")));
    let mut unnamed = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if is_rust && !["main", "mod"].contains(&stem.as_str()) && !is_named(&stem) {
            unnamed.push(path);
        } else if path.is_dir() {
            if path.join("mod.rs").exists() && !is_named(&stem) {
                unnamed.push(path.clone());
            }
            unnamed.extend(unnamed_files(&path));
        }
    }
    unnamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "2\n4")]
    fn all_failures_are_named() {
        every([1, 2, 3, 4], |number| assert_eq!(number % 2, 1));
    }

    #[test]
    fn a_file_that_is_not_named_is_found_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("main.rs", "mod whole;\nmod part;\n");
        write("whole/mod.rs", "pub(crate) mod named;\n");
        write("whole/named.rs", "");
        write("part.rs", "mod inner;\n");
        write("part/inner.rs", "");
        assert_eq!(unnamed_files(dir.path()), Vec::<PathBuf>::new());
        write("whole/forgotten.rs", "");
        write("lost/mod.rs", "");
        let mut unnamed = unnamed_files(dir.path());
        unnamed.sort();
        assert_eq!(unnamed, [dir.path().join("lost"), dir.path().join("whole/forgotten.rs")]);
    }
}
