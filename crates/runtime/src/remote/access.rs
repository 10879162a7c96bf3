//! Where another daemon is, and what opens it. Read anew for each connection, so that a token can be changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use trl_client::remote::{Address, DialError, RemoteAccess};
use trl_sys::private::{SecretError, read_secret};

/// Longest file with a token, in bytes.
const MAX_TOKEN_FILE: u64 = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    Files {
        address: Address,
        token_file: PathBuf,
        /// Certificate authorities in PEM.
        ca: Option<PathBuf>,
    },
    /// Another agent has granted it: a [`Grant`] in a file, for as long as it holds.
    Granted { file: PathBuf, by: String },
}

/// Access to a daemon as its agent has granted it.
#[derive(Clone, Deserialize)]
pub(crate) struct Grant {
    url: String,
    token: String,
    /// PEM
    #[serde(default)]
    ca: Option<String>,
    pub(crate) granted_by: String,
    /// RFC 3339
    #[serde(default)]
    pub(crate) expires_at: Option<String>,
}

impl std::fmt::Debug for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Grant { url, token: _, ca: _, granted_by, expires_at } = self;
        f.debug_struct("Grant")
            .field("url", url)
            .field("granted_by", granted_by)
            .field("expires_at", expires_at)
            .finish_non_exhaustive()
    }
}

impl Grant {
    pub(crate) fn read(file: &Path) -> io::Result<Grant> {
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    }

    fn is_over(&self) -> bool {
        let end = self.expires_at.as_deref().and_then(|end| end.parse::<jiff::Timestamp>().ok());
        end.is_some_and(|end| end <= jiff::Timestamp::now())
    }
}

impl Access {
    pub(crate) fn read(&self) -> Result<RemoteAccess, DialError> {
        match self {
            Access::Files { address, token_file, ca } => {
                let token = secret(token_file).map_err(|problem| {
                    let path = token_file.display();
                    DialError::Refused(format!("no token for {address}: {path}: {problem}"))
                })?;
                let ca = ca.as_deref().map(read_ca).transpose()?;
                Ok(RemoteAccess { address: address.clone(), token, ca })
            }
            Access::Granted { file, by } => of_grant(file, by),
        }
    }

    /// Whoever has granted it.
    pub(crate) fn granted_by(&self) -> Option<String> {
        match self {
            Access::Files { .. } => None,
            Access::Granted { file, by } => {
                Some(Grant::read(file).map_or_else(|_| by.clone(), |grant| grant.granted_by))
            }
        }
    }
}

fn of_grant(file: &Path, by: &str) -> Result<RemoteAccess, DialError> {
    let grant = Grant::read(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let what = "has revoked the grant, or it has expired";
            DialError::Denied(format!("{by} {what}; it is no longer granted, ask {by} for another"))
        }
        _ => DialError::Refused(format!("{}: {error}", file.display())),
    })?;
    if grant.is_over() {
        let (by, end) = (&grant.granted_by, grant.expires_at.as_deref().unwrap_or_default());
        // Who reads both sees a clock that is wrong.
        let now = format!("{:.0}", jiff::Timestamp::now());
        let what = format!(
            "the grant of {by} ended at {end}, and it is {now} here; ask {by} for another, or check the clocks of both machines"
        );
        return Err(DialError::Denied(what));
    }
    let address = grant.url.parse::<Address>().map_err(|error| DialError::Refused(error.to_string()))?;
    Ok(RemoteAccess { address, token: grant.token, ca: grant.ca })
}

fn read_ca(path: &Path) -> Result<String, DialError> {
    fs::read_to_string(path).map_err(|error| DialError::Refused(format!("`ca` {}: {error}", path.display())))
}

/// A token in a file that nobody else can read.
fn secret(path: &Path) -> Result<String, String> {
    let help = "write the token into that file (mode 0600)";
    let mut text = String::new();
    read_secret(path, MAX_TOKEN_FILE, &mut text).map_err(|error| match error {
        SecretError::Open { .. } => error.to_string(),
        error => format!("{error}; {help}"),
    })?;
    match text.trim() {
        "" => Err(format!("it is empty; {help}")),
        token => Ok(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn file(dir: &Path, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_token_is_read_from_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let read = |token_file: PathBuf| {
            let address = "http://127.0.0.1:7".parse().unwrap();
            Access::Files { address, token_file, ca: None }.read().map(|access| access.token)
        };
        assert_eq!(read(file(dir.path(), "good", 0o600, " secret\n")).unwrap(), "secret");
        for (token_file, said) in [
            (file(dir.path(), "open", 0o644, "secret"), "chmod 600"),
            (file(dir.path(), "empty", 0o600, "\n"), "empty"),
            (dir.path().join("missing"), "missing"),
        ] {
            let problem = read(token_file).unwrap_err().to_string();
            assert!(problem.contains(said) && !problem.contains("secret"), "{problem}");
        }
    }

    #[test]
    fn a_grant_holds_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let grant = |expires_at: &str| {
            let text = format!(
                r#"{{"url":"https://b:7","token":"secret","ca":null,"granted_by":"bob@x","grant_id":"g1","expires_at":{expires_at}}}"#
            );
            Access::Granted { file: file(dir.path(), "b.json", 0o600, &text), by: "bob@x".to_owned() }
        };
        assert_eq!(grant("null").read().unwrap().token, "secret");
        assert_eq!(grant("\"2999-01-01T00:00:00Z\"").read().unwrap().address.authority(), "b:7");
        let over = grant("\"2001-01-01T00:00:00Z\"").read().unwrap_err().to_string();
        assert!(["bob@x", "2001", "clocks"].iter().all(|word| over.contains(word)), "{over}");
        let debug = format!("{:?} {:?}", Grant::read(&dir.path().join("b.json")), grant("null").read());
        assert!(!debug.contains("secret"), "{debug}");
        let gone = Access::Granted { file: dir.path().join("gone.json"), by: "bob@x".to_owned() };
        let gone = gone.read().unwrap_err().to_string();
        assert!(gone.contains("no longer granted") && gone.contains("bob@x"), "{gone}");
    }
}
