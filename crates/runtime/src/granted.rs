//! Runtimes of other daemons that agents of this one were granted, as files for whoever uses them:
//! `runtimes/NAME.json` in the state directory.
//!
//! The mail knows what was granted; the files follow it. A grant that was revoked or has expired has no file.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use trl_mail::GrantedRuntime;
use trl_protocol::Code;
use trl_sys::private::{file_options, make_private};

use crate::blocking::run_blocking;
use crate::runtime::Inner;

/// Where the files are, below the state directory.
pub(crate) const DIR: &str = "runtimes";
/// Before files that could not be written are tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Keeps the files as the mail has it, until the daemon ends.
pub(crate) async fn watch(runtime: Arc<Inner>) {
    let opened = tokio::select! {
        mail = runtime.mailroom.opened() => mail,
        () = runtime.stopping() => return,
    };
    let runtimes = opened.granted_runtimes();
    drop(opened);
    let mut found = runtimes.all().await;
    loop {
        let known = match found {
            Ok(known) => known,
            Err(fault) if fault.code == Code::ShuttingDown => return,
            Err(fault) => {
                tracing::warn!(message = %fault.message, "granted runtimes could not be read; tried again later");
                sleep(AGAIN).await;
                found = runtimes.all().await;
                continue;
            }
        };
        let (dir, wanted) = (runtime.config.state_dir.join(DIR), known.clone());
        let written = run_blocking(move || write_all(&dir, &wanted)).await.and_then(|written| written);
        let is_written = written.is_ok();
        if let Err(error) = written {
            tracing::warn!(%error, "granted runtimes could not be stored; tried again later");
        }
        found = tokio::select! {
            found = runtimes.beyond(&known) => found,
            () = sleep(AGAIN), if !is_written => Ok(known),
            () = runtime.stopping() => return,
        };
    }
}

/// Writes a file for each, and removes those of grants that are over.
fn write_all(dir: &Path, wanted: &[GrantedRuntime]) -> io::Result<()> {
    if wanted.is_empty() && !dir.exists() {
        return Ok(());
    }
    make_private(dir).map_err(io::Error::other)?;
    let mut kept = HashSet::new();
    for granted in wanted {
        let path = dir.join(format!("{}.json", granted.name));
        write(&path, granted)?;
        kept.insert(path);
    }
    for path in fs::read_dir(dir)?.flatten().map(|entry| entry.path()) {
        if !kept.contains(&path) && is_granted(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn write(path: &Path, granted: &GrantedRuntime) -> io::Result<()> {
    let GrantedRuntime { name: _, url, token, ca, granted_by, grant_id, expires_at } = granted;
    let text = serde_json::json!({
        "url": url,
        "token": token.0,
        "ca": ca,
        "granted_by": granted_by,
        "grant_id": grant_id,
        "expires_at": expires_at,
    })
    .to_string();
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let new = path.with_extension("new");
    // An earlier one may have been left half written, or open to others.
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = file_options().write(true).create_new(true).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// A file of ours, and not one that a person has put there.
fn is_granted(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let read: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    read.get("grant_id").is_some_and(serde_json::Value::is_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use trl_protocol::agent::Token;

    fn granted(name: &str) -> GrantedRuntime {
        GrantedRuntime {
            name: name.to_owned(),
            url: "https://build1:7700".to_owned(),
            token: Token("secret".to_owned()),
            ca: None,
            granted_by: "address".to_owned(),
            grant_id: "g-1".to_owned(),
            expires_at: None,
        }
    }

    #[test]
    fn files_follow_the_grants_and_leave_others_alone() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join(DIR);
        write_all(&dir, &[]).unwrap();
        assert!(!dir.exists(), "nothing is made for nothing");
        write_all(&dir, &[granted("a@x"), granted("b@x")]).unwrap();
        fs::write(dir.join("own.json"), r#"{"url":"https://mine"}"#).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join("a@x.json"))), (0o700, 0o600));
        let read: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.join("a@x.json")).unwrap()).unwrap();
        let expected = serde_json::json!({"url": "https://build1:7700", "token": "secret", "ca": null,
            "granted_by": "address", "grant_id": "g-1", "expires_at": null});
        assert_eq!(read, expected);
        write_all(&dir, &[granted("b@x")]).unwrap();
        let there = |name: &str| dir.join(name).exists();
        assert!(!there("a@x.json") && there("b@x.json") && there("own.json"));
    }
}
