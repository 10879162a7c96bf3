//! The shell of a session whose `/` is another directory: found there, as the session will see it.

use std::path::Path;

use trl_protocol::Fault;
use trl_protocol::wire::Dialect;
use trl_sys::shells;

use crate::backend::Shell;

const DIRS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];
const NAMES: [&str; 4] = ["bash", "zsh", "sh", "dash"];

/// The shell that was asked for, else bash, else sh.
pub(crate) fn find(root: &str, asked: Option<&str>) -> Result<Shell, Fault> {
    let invalid = |field: &str, message: String| {
        Err(Fault::invalid(message).with_details(serde_json::json!({ "field": field })))
    };
    if !Path::new(root).is_dir() {
        return invalid("isolation.root", format!("param `isolation`: root: there is no directory `{root}`"));
    }
    let wanted = asked.as_ref().map_or(&["bash", "sh"][..], std::slice::from_ref);
    match wanted.iter().find_map(|name| look(root, name)) {
        Some(shell) => Ok(shell),
        None => invalid(
            "shell",
            format!(
                "param `shell`: there is no `{}` in the session's root {root}; put a shell (bash, zsh, sh, dash) into its /bin",
                wanted.join("` and no `")
            ),
        ),
    }
}

fn look(root: &str, asked: &str) -> Option<Shell> {
    let name = Path::new(asked).file_name()?.to_str().filter(|name| NAMES.contains(name))?;
    let paths: Vec<String> = match asked.contains('/') {
        true => vec![asked.to_owned()],
        false => DIRS.iter().map(|dir| format!("{dir}/{name}")).collect(),
    };
    paths.into_iter().find_map(|path| {
        let program = shells::program_below(root, &path)?;
        let dialect = match (name, program.as_str()) {
            ("bash", _) | ("sh", "bash") => Dialect::Bash,
            ("zsh", _) | ("sh", "zsh") => Dialect::Zsh,
            _ => Dialect::Sh,
        };
        Some(Shell { name: asked.to_owned(), path, dialect })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_shell_is_found_as_the_session_will_see_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        assert!(find(root, None).unwrap_err().message.contains("no `bash` and no `sh`"));
        assert!(find("/no/such/root", None).unwrap_err().message.contains("/no/such/root"));
        fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        symlink("usr/bin", dir.path().join("bin")).unwrap();
        let busybox = dir.path().join("usr/bin/busybox");
        fs::write(&busybox, "").unwrap();
        fs::set_permissions(&busybox, fs::Permissions::from_mode(0o755)).unwrap();
        // An absolute link means the root's own file, not the machine's.
        symlink("/bin/busybox", dir.path().join("usr/bin/sh")).unwrap();
        let shell = find(root, None).unwrap();
        assert_eq!(
            (shell.name.as_str(), shell.path.as_str(), shell.dialect),
            ("sh", "/usr/bin/sh", Dialect::Sh)
        );
        assert_eq!(find(root, Some("/bin/sh")).unwrap().path, "/bin/sh");
        assert!(find(root, Some("bash")).is_err());
        symlink("/../../../../bin/bash", dir.path().join("usr/bin/bash")).unwrap();
        assert!(find(root, Some("bash")).is_err(), "a link cannot lead out");
    }
}
