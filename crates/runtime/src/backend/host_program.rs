//! The program that is brought to containers and other machines: the statically linked host program, which runs on
//! any of this architecture, or without one the daemon's own, which runs where the same libraries are.

use std::path::{Path, PathBuf};

use crate::config::Config;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostProgram {
    path: PathBuf,
    is_static: bool,
}

impl HostProgram {
    pub(super) fn of(config: &Config) -> HostProgram {
        match &config.static_host {
            Some(path) => HostProgram { path: path.clone(), is_static: true },
            None => HostProgram { path: config.host_program.clone(), is_static: false },
        }
    }

    /// Its file, or why there is none.
    pub(super) fn file(&self) -> Result<&Path, String> {
        match self.path.is_file() {
            true => Ok(&self.path),
            false => Err(format!(
                "there is no host program {}; build it with scripts/build-host, or name it with TRL_HOST_PROGRAM",
                self.path.display()
            )),
        }
    }

    /// What comes before its arguments. The daemon's own is many programs.
    pub(super) fn first_words(&self) -> &'static [&'static str] {
        if self.is_static { &[] } else { &["host"] }
    }

    /// What to do if it does not run there.
    pub(super) fn remedy(&self) -> &'static str {
        match self.is_static {
            true => "try again, or look at what that place allows to run",
            false => {
                "the libraries that `trl` needs may be missing there; scripts/build-host builds a host program \
                 that needs none"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_comes_before_the_daemons_own() {
        let dir = tempfile::tempdir().unwrap();
        let [trl, host] = ["trl", "trl-host"].map(|name| dir.path().join(name));
        std::fs::write(&trl, "").unwrap();
        let mut config = Config::new(dir.path().join("r"), dir.path().join("s"), trl.clone());
        let own = HostProgram::of(&config);
        assert_eq!((own.file(), own.first_words()), (Ok(trl.as_path()), &["host"][..]));
        assert!(own.remedy().contains("build-host"));
        config.static_host = Some(host.clone());
        let named = HostProgram::of(&config);
        let missing = named.file().unwrap_err();
        assert!(missing.contains("trl-host") && missing.contains("TRL_HOST_PROGRAM"), "{missing}");
        std::fs::write(&host, "").unwrap();
        assert_eq!((named.file(), named.first_words()), (Ok(host.as_path()), &[][..]));
    }
}
