//! Tables of cases in which one failure does not hide the others.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// Tests of a crate that are one binary: a file that its `main.rs` does not name would never run.
pub fn every_file_is_named(dir: &str, main: &str) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let Some(module) = name.strip_suffix(".rs").filter(|name| *name != "main") else { continue };
        assert!(main.contains(&format!("\nmod {module};\n")), "{name} is not named in main.rs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "2\n4")]
    fn all_failures_are_named() {
        every([1, 2, 3, 4], |number| assert_eq!(number % 2, 1));
    }
}
