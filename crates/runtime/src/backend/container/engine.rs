//! The command line that docker, podman and nerdctl have in common.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::process::Command;
use trl_protocol::{Code, Fault};

use crate::backend::programs::{self, Ran};

const KNOWN: [&str; 3] = ["docker", "podman", "nerdctl"];

/// A container engine.
#[derive(Debug, Clone)]
pub(in crate::backend) struct Engine {
    program: PathBuf,
    env: BTreeMap<String, String>,
}

impl Engine {
    /// The one that was chosen, or the first that is installed.
    pub(in crate::backend) fn find(
        chosen: Option<&str>,
        env: &BTreeMap<String, String>,
    ) -> Result<Engine, Fault> {
        let names: Vec<&str> = chosen.map_or_else(|| KNOWN.to_vec(), |name| vec![name]);
        let found = names.iter().find_map(|name| programs::find(name, env));
        let missing = || match chosen {
            Some(name) => format!(
                "the container engine {name:?} (TRL_CONTAINER_ENGINE) is not installed; install it, or name another"
            ),
            None => "no container engine is installed; install podman, docker or nerdctl, or name one with \
                     TRL_CONTAINER_ENGINE"
                .to_owned(),
        };
        let program = found.ok_or_else(|| unavailable(missing()))?;
        // It is not always run from here.
        let program = std::path::absolute(&program).unwrap_or(program);
        Ok(Engine { program, env: env.clone() })
    }

    pub(in crate::backend) fn name(&self) -> String {
        self.program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// What an empty directory needs as an option in place of one of the image. podman copies the image's content into
    /// it unless told not to; the others never do, and refuse the option. podman also comes under docker's name.
    pub(super) async fn empty_option(&self) -> Result<&'static str, Fault> {
        let told = self.run(["--version"]).await?;
        Ok(if told.stdout.to_ascii_lowercase().contains("podman") { ",notmpcopyup" } else { "" })
    }

    pub(in crate::backend) fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().envs(&self.env);
        command
    }

    /// Runs the engine to its end.
    pub(in crate::backend) async fn run<I: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = I>,
    ) -> Result<Ran, Fault> {
        self.ran(self.command(args)).await
    }

    /// The same in a directory: what watches a container of podman leaves a file `oom` where it was started.
    pub(super) async fn run_in(&self, dir: &Path, args: Vec<String>) -> Result<Ran, Fault> {
        let mut command = self.command(args);
        command.current_dir(dir);
        self.ran(command).await
    }

    async fn ran(&self, command: Command) -> Result<Ran, Fault> {
        programs::run(command, b"")
            .await
            .map_err(|error| unavailable(format!("{} cannot be run: {error}", self.name())))
    }

    /// Why it cannot be used at all, if so: some are clients of a daemon of their own.
    pub(in crate::backend) async fn obstacle(&self) -> Option<Fault> {
        let told = match self.run(["version"]).await {
            Ok(told) if told.is_ok() => return None,
            Ok(told) => told.complaint(),
            Err(fault) => return Some(fault),
        };
        let name = self.name();
        Some(unavailable(format!(
            "{name} cannot be used: {told}; make `{name} version` work, or name another engine with \
             TRL_CONTAINER_ENGINE (docker, podman, nerdctl)"
        )))
    }

    pub(super) async fn has_image(&self, image: &str) -> bool {
        self.run(["image", "inspect", image]).await.is_ok_and(|ran| ran.is_ok())
    }

    /// Whether a container of this name runs; `None` if there is none.
    pub(in crate::backend) async fn is_running(&self, container: &str) -> Option<bool> {
        let ran =
            self.run(["container", "inspect", "--format", "{{.State.Running}}", container]).await.ok()?;
        ran.is_ok().then(|| ran.stdout.trim() == "true")
    }

    /// Removes a container, running or not. One that does not exist is as good as removed.
    pub(super) async fn remove(&self, container: &str) {
        match self.run(["rm", "-f", "-v", container]).await {
            Ok(ran) if !ran.is_ok() && self.is_running(container).await.is_some() => {
                tracing::warn!(container, error = ran.complaint(), "a container could not be removed");
            }
            Ok(_) => {}
            Err(fault) => {
                tracing::warn!(container, message = %fault.message, "a container could not be removed")
            }
        }
    }
}

pub(super) fn unavailable(message: String) -> Fault {
    Fault::new(Code::RuntimeUnavailable, message)
}
