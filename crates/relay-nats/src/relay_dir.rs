//! What `trl relay init` keeps in a directory: keys, one file each, and the broker's config made of them.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::access::User;
use super::secret_file::BadSecret;
use super::server_config::{self, Member};
use super::{keys, secret_file};
use trl_mail::identity::Address;

#[derive(Debug)]
pub struct RelayDir {
    dir: PathBuf,
    admin: String,
    members: Vec<Member>,
}

#[derive(Debug, thiserror::Error)]
pub enum RelayDirError {
    #[error(transparent)]
    Secret(#[from] BadSecret),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn at(path: &Path) -> impl Fn(io::Error) -> RelayDirError {
    let path = path.to_owned();
    move |source| RelayDirError::Io { path: path.clone(), source }
}

impl RelayDir {
    /// Finds the keys in a directory, or makes it with an administrator's key.
    pub fn open(dir: &Path) -> Result<RelayDir, RelayDirError> {
        let agents = dir.join("agents");
        for dir in [dir, &agents] {
            trl_sys::private::create_dir(dir).map_err(at(dir))?;
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).map_err(at(dir))?;
        }
        let admin = keys::find_or_make(&dir.join("admin.nk"), "the relay's administrator")?;
        let mut relay_dir = RelayDir { dir: dir.to_owned(), admin, members: Vec::new() };
        for entry in std::fs::read_dir(&agents).map_err(at(&agents))? {
            let path = entry.map_err(at(&agents))?.path();
            let address = path.file_stem().and_then(|stem| Address::parse(stem.to_str()?).ok());
            if let Some(address) = address.filter(|_| path.extension().is_some_and(|end| end == "nk")) {
                let name = name_in(&secret_file::read(&path)?);
                relay_dir.members.push(Member { address, name, public_key: User::read(&path)?.public_key });
            }
        }
        relay_dir.members.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(relay_dir)
    }

    /// A key for this agent, if it has none yet.
    pub fn add(&mut self, name: &str, address: &Address) -> Result<(), RelayDirError> {
        if self.members.iter().any(|member| member.address == *address) {
            return Ok(());
        }
        let plain: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        let public_key = keys::find_or_make(&self.key_file(address), &plain)?;
        self.members.push(Member { address: address.clone(), name: plain, public_key });
        self.members.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(())
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn admin_file(&self) -> PathBuf {
        self.dir.join("admin.nk")
    }

    pub fn key_file(&self, address: &Address) -> PathBuf {
        self.dir.join("agents").join(format!("{address}.nk"))
    }

    pub fn config_file(&self) -> PathBuf {
        self.dir.join("trl-relay.conf")
    }

    pub fn config(&self) -> String {
        server_config::written(&self.admin, &self.members)
    }

    /// Writes the config; `true` if the broker must be told of it.
    pub fn write_config(&self) -> Result<bool, RelayDirError> {
        let path = self.config_file();
        let config = self.config();
        if std::fs::read_to_string(&path).is_ok_and(|old| old == config) {
            return Ok(false);
        }
        std::fs::write(&path, config).map_err(at(&path))?;
        Ok(true)
    }
}

fn name_in(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kit_is_the_same_when_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("relay");
        let address = Address::parse(&"a".repeat(32)).unwrap();
        let mut relay_dir = RelayDir::open(&dir).unwrap();
        relay_dir.add("alice", &address).unwrap();
        relay_dir.add("alice", &address).unwrap();
        assert!(relay_dir.write_config().unwrap());
        let again = RelayDir::open(&dir).unwrap();
        assert_eq!((again.config(), again.members()), (relay_dir.config(), relay_dir.members()));
        assert!(!again.write_config().unwrap());
        assert_eq!(again.members().len(), 1);
        let seed = std::fs::read_to_string(relay_dir.key_file(&address)).unwrap();
        let seed = seed.lines().nth(1).unwrap();
        assert!(!relay_dir.config().contains(seed) && !format!("{relay_dir:?}").contains(seed));
        std::fs::set_permissions(relay_dir.admin_file(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(RelayDir::open(&dir).unwrap_err().to_string().contains("chmod 600"));
    }
}
