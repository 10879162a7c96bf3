//! States of shells that outlive their sessions, by a name that the client chose: a harness session that is resumed
//! finds its shell as it was.
//!
//! The host writes the file whenever the state changes, so nothing needs to be done when a session ends, however that
//! comes about. The files hold the values of variables, so they are for their owner alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use trl_protocol::Fault;

const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
const LONGEST_NAME: usize = 200;

/// Where the state of this name is kept. It counts as used now; what nobody has used for a week is removed.
pub(crate) fn file(state_dir: &Path, field: &str, name: &str) -> Result<String, Fault> {
    check_name(field, name)?;
    let dir = state_dir.join("kept");
    trl_sys::private::create_dir(&dir)
        .map_err(|error| Fault::refused_by_system("states cannot be kept", &error))?;
    remove_old(&dir, SystemTime::now());
    let file = dir.join(format!("{name}.json"));
    touch(&file);
    let text = file.into_os_string().into_string();
    text.map_err(|_| Fault::internal("the state directory's path is no UTF-8 text"))
}

fn touch(file: &PathBuf) {
    // One that is not there yet is written with the first state.
    if let Ok(open) = std::fs::File::options().write(true).open(file)
        && let Err(error) = open.set_modified(SystemTime::now())
    {
        tracing::debug!(%error, "a kept state could not be marked as used");
    }
}

fn remove_old(dir: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let written = entry.metadata().and_then(|meta| meta.modified());
        let age = written.ok().and_then(|at| now.duration_since(at).ok());
        if age.is_some_and(|age| age >= KEPT_FOR)
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            tracing::warn!(%error, "an old state could not be removed");
        }
    }
}

/// A name becomes part of a path.
fn check_name(field: &str, name: &str) -> Result<(), Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('.') {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "param `{field}`: a state is kept under 1 to {LONGEST_NAME} letters, digits and . _ : -, not beginning with a dot"
    ))
    .with_details(serde_json::json!({ "field": field })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_goes_when_nobody_has_used_it_for_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let (used, old) =
            (file(dir.path(), "keep_state", "used").unwrap(), file(dir.path(), "keep_state", "old").unwrap());
        for path in [&used, &old] {
            std::fs::write(path, "state").unwrap();
            let before = SystemTime::now() - KEPT_FOR + Duration::from_secs(60);
            std::fs::File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        }
        file(dir.path(), "keep_state", "used").unwrap();
        remove_old(&dir.path().join("kept"), SystemTime::now() + Duration::from_secs(120));
        assert!(Path::new(&used).exists() && !Path::new(&old).exists());
    }

    #[test]
    fn names_stay_in_their_directory() {
        let dir = tempfile::tempdir().unwrap();
        for (name, fits) in [
            ("claude:0-9", true),
            ("", false),
            ("../x", false),
            (".x", false),
            ("a/b", false),
            ("a b", false),
        ] {
            assert_eq!(file(dir.path(), "keep_state", name).is_ok(), fits, "{name}");
        }
        assert!(file(dir.path(), "keep_state", &"x".repeat(201)).is_err());
    }
}
