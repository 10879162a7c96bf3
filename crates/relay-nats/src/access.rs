//! Where the broker is and who we are to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::{ConnectOptions, ServerAddr};
use nkeys::{KeyPair, KeyPairType};
use zeroize::Zeroizing;

use trl_mail::relay::broker::Tls;

use super::names;
use super::secret_file::{self, BadSecret};

#[derive(Debug, thiserror::Error)]
pub enum BadAccess {
    #[error(transparent)]
    Secret(#[from] BadSecret),
    #[error("{0:?} is not the address of a broker: nats://host:4222 or tls://host:4222 is expected")]
    Server(String),
    #[error(
        "the broker's address holds a password; put the secret into a file of mode 0600 and name that instead"
    )]
    SecretInUrl,
    #[error("{}: {source}", path.display())]
    Certificate { path: PathBuf, source: std::io::Error },
    #[error("a client certificate needs both its file and its key's file")]
    HalfCertificate,
}

/// Who a file makes us.
pub(crate) struct User {
    pub(crate) public_key: String,
    secret: Option<Secret>,
}

enum Secret {
    Seed(Zeroizing<String>),
    Creds(Zeroizing<String>),
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let User { public_key, secret: _ } = self;
        f.debug_struct("User").field("public_key", public_key).finish_non_exhaustive()
    }
}

impl User {
    pub(crate) fn anonymous() -> User {
        User { public_key: "anonymous".to_owned(), secret: None }
    }

    pub(crate) fn read(path: &Path) -> Result<User, BadSecret> {
        let text = secret_file::read(path)?;
        let bad = || BadSecret::Content { path: path.to_owned() };
        let seed = text.lines().map(str::trim).find(|line| line.starts_with("SU")).ok_or_else(bad)?;
        let pair = KeyPair::from_seed(seed).map_err(|_| bad())?;
        if pair.key_pair_type() != KeyPairType::User {
            return Err(bad());
        }
        let secret = if text.contains("BEGIN NATS USER JWT") {
            Secret::Creds(text.clone())
        } else {
            Secret::Seed(Zeroizing::new(seed.to_owned()))
        };
        Ok(User { public_key: pair.public_key(), secret: Some(secret) })
    }
}

pub(crate) fn servers(text: &str) -> Result<Vec<ServerAddr>, BadAccess> {
    let mut servers = Vec::new();
    for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let server: ServerAddr = one.parse().map_err(|_| BadAccess::Server(one.to_owned()))?;
        if server.has_user_pass() {
            return Err(BadAccess::SecretInUrl);
        }
        if !matches!(server.scheme(), "nats" | "tls") {
            return Err(BadAccess::Server(one.to_owned()));
        }
        servers.push(server);
    }
    if servers.is_empty() { Err(BadAccess::Server(text.to_owned())) } else { Ok(servers) }
}

/// Messages that a subscription holds for a slow reader; what does not fit is fetched later.
const UNREAD: usize = 256;

pub(crate) fn options(user: &User, tls: &Tls, name: &str) -> Result<ConnectOptions, BadAccess> {
    let mut options = ConnectOptions::new()
        .name(name)
        .custom_inbox_prefix(names::inbox_prefix(&user.public_key))
        .connection_timeout(Duration::from_secs(5))
        .subscription_capacity(UNREAD)
        .ping_interval(Duration::from_secs(10))
        .request_timeout(Some(Duration::from_secs(5)))
        .reconnect_delay_callback(|attempt| Duration::from_millis(100 << attempt.min(5)));
    options = match &user.secret {
        Some(Secret::Seed(seed)) => options.nkey(seed.to_string()),
        Some(Secret::Creds(text)) => options
            .credentials(text)
            .map_err(|source| BadAccess::Certificate { path: PathBuf::from("the .creds file"), source })?,
        None => options,
    };
    if let Some(ca) = &tls.ca {
        readable(ca)?;
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            readable(cert)?;
            drop(secret_file::read(key)?);
            options = options.add_client_certificate(cert.clone(), key.clone()).require_tls(true);
        }
        (None, None) => {}
        (Some(_), None) | (None, Some(_)) => return Err(BadAccess::HalfCertificate),
    }
    Ok(options)
}

fn readable(path: &Path) -> Result<(), BadAccess> {
    // Looked at before it is opened: a pipe would keep us until somebody writes to it.
    let opened = match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => std::fs::File::open(path).map(drop),
        Ok(_) => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) => Err(error),
    };
    opened.map_err(|source| BadAccess::Certificate { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_brokers() {
        let cases = [
            ("nats://a:4222", 1),
            ("a", 1),
            ("tls://a, nats://b:1", 2),
            ("", 0),
            ("http://a", 0),
            ("nats://user:secret@a", 0),
            ("ws://a", 0),
        ];
        for (text, count) in cases {
            assert_eq!(servers(text).map_or(0, |found| found.len()), count, "{text}");
        }
        let told = servers("nats://user:secret@a").unwrap_err().to_string();
        assert!(told.contains("0600") && !told.contains("secret@"), "{told}");
    }

    #[test]
    fn debug_tells_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u.nk");
        let pair = KeyPair::new_user();
        crate::keys::write(&path, "a comment", &pair.seed().unwrap()).unwrap();
        let user = User::read(&path).unwrap();
        assert_eq!(format!("{user:?}"), format!("User {{ public_key: {:?}, .. }}", pair.public_key()));
    }
}
