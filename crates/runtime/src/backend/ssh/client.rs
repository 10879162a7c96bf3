//! How programs are run over there: with the user's own SSH client, or with a container engine in a
//! container that runs already.
//!
//! The SSH client brings its configuration, keys, agent, jump hosts and known hosts. It is never asked for a
//! password: what would need one is refused with the client's words.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::process::Command;
use tokio::sync::OnceCell;
use trl_protocol::{Code, Fault};

use crate::backend::container::Engine;
use crate::backend::host_program::HostProgram;
use crate::backend::programs::{self, Ran};

/// The status of `ssh` for its own failures.
const SSH_FAILED: i32 = 255;
/// How long the host program may take to get there.
const COPY_TIMEOUT: Duration = Duration::from_secs(600);
/// The far script's status when the host program is not there yet.
const NO_PROGRAM: i32 = 66;

/// Runs the host program, if it is there. `$1` is its name, the rest its arguments.
const CALL: &str =
    r#"f="${XDG_CACHE_HOME:-$HOME/.cache}/trl/$1"; [ -x "$f" ] || exit 66; shift; exec "$f" "$@""#;
/// The same in a container, whose image may have nothing but a shell.
const CALL_IN_CONTAINER: &str = r#"f="/.trl-$1"; [ -x "$f" ] || exit 66; shift; exec "$f" "$@""#;
/// Removes it.
const REMOVE: &str = r#"rm -f "${XDG_CACHE_HOME:-$HOME/.cache}/trl/$1""#;
const REMOVE_IN_CONTAINER: &str = r#"rm -f "/.trl-$1""#;
/// Puts what comes on stdin where the host program belongs, in one step. `$2` is its size: a connection that breaks
/// in between looks like the end of the file.
const INSTALL: &str = r#"d="${XDG_CACHE_HOME:-$HOME/.cache}/trl"; umask 077; t="$d/$1.$$"
mkdir -p "$d" && cat >"$t" && [ "$(($(wc -c <"$t")))" = "$2" ] && chmod 700 "$t" && mv -f "$t" "$d/$1" && exit
rm -f "$t"; echo "it did not arrive whole" >&2; exit 1"#;

/// `[user@]host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) destination: String,
    pub(super) port: Option<u16>,
}

impl Target {
    pub(super) fn parse(text: &str) -> Option<Target> {
        let (destination, port) = match text.rsplit_once(':') {
            Some((destination, port)) if !destination.contains(':') => {
                (destination, Some(port.parse().ok()?))
            }
            _ => (text, None),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@%+[]:".contains(c);
        // What begins with a dash would be an option of the client.
        let fine =
            !destination.is_empty() && !destination.starts_with('-') && destination.chars().all(is_plain);
        fine.then(|| Target { destination: destination.to_owned(), port })
    }
}

#[derive(Debug)]
pub(super) enum Reach {
    Ssh(Target),
    /// A container that runs already, and the engine that was chosen.
    Container {
        name: String,
        engine: Option<String>,
    },
}

#[derive(Debug)]
pub(super) struct SshClient {
    reach: Reach,
    env: BTreeMap<String, String>,
    host_program: HostProgram,
    /// The host program's name over there, which has the hash of its content.
    installed: OnceCell<String>,
}

impl SshClient {
    pub(super) fn new(reach: Reach, env: BTreeMap<String, String>, host_program: HostProgram) -> SshClient {
        SshClient { reach, env, host_program, installed: OnceCell::new() }
    }

    fn where_to(&self) -> &str {
        match &self.reach {
            Reach::Ssh(target) => &target.destination,
            Reach::Container { name, .. } => name,
        }
    }

    /// A script for the far shell, ready to run.
    fn command(&self, script: &str, args: &[&str]) -> Result<Command, Fault> {
        match &self.reach {
            Reach::Ssh(target) => self.ssh(target, script, args),
            Reach::Container { name, engine } => {
                let engine = Engine::find(engine.as_deref(), &self.env)?;
                let mut command = engine.command(["exec", "-i", name, "sh", "-c", script, "trl"]);
                command.args(args).kill_on_drop(true);
                Ok(command)
            }
        }
    }

    fn ssh(&self, target: &Target, script: &str, args: &[&str]) -> Result<Command, Fault> {
        let program = programs::find("ssh", &self.env).ok_or_else(|| {
            self.unavailable("there is no `ssh` on this machine; install an OpenSSH client")
        })?;
        let mut command = Command::new(program);
        command.env_clear().envs(&self.env).kill_on_drop(true);
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]);
        command.args(["-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"]);
        if let Some(port) = target.port {
            command.args(["-p", &port.to_string()]);
        }
        let words: Vec<String> = args.iter().map(|word| quoted(word)).collect();
        command.args(["--", &target.destination]);
        command.arg(format!("exec sh -c {} trl {}", quoted(script), words.join(" ")));
        Ok(command)
    }

    /// The client with the host program over there, ready to run; the program is brought first if need be.
    pub(super) async fn far_program(&self, args: &[&str]) -> Result<Command, Fault> {
        let name = self.installed.get_or_try_init(|| self.install()).await?;
        self.calling(name, args)
    }

    fn calling(&self, name: &str, args: &[&str]) -> Result<Command, Fault> {
        let words: Vec<&str> =
            [name].iter().chain(self.host_program.first_words()).chain(args).copied().collect();
        self.command(self.call_script(), &words)
    }

    fn call_script(&self) -> &'static str {
        match &self.reach {
            Reach::Ssh(_) => CALL,
            Reach::Container { .. } => CALL_IN_CONTAINER,
        }
    }

    fn remove_script(&self) -> &'static str {
        match &self.reach {
            Reach::Ssh(_) => REMOVE,
            Reach::Container { .. } => REMOVE_IN_CONTAINER,
        }
    }

    /// Whether nobody will ever answer there again. A machine that cannot be reached may come back.
    pub(super) async fn is_gone(&self) -> bool {
        let Reach::Container { name, engine } = &self.reach else { return false };
        match Engine::find(engine.as_deref(), &self.env) {
            Ok(engine) => engine.is_running(name).await != Some(true),
            Err(_) => false,
        }
    }

    /// Whether the host program that was there is gone: somebody has cleared its directory.
    pub(super) fn is_program_missing(status: std::process::ExitStatus) -> bool {
        status.code() == Some(NO_PROGRAM)
    }

    /// Brings the host program again.
    pub(super) async fn bring_again(&self) -> Result<(), Fault> {
        tracing::info!(host = self.where_to(), "the host program is gone from there");
        self.install().await.map(drop)
    }

    /// Runs the host program over there to its end.
    pub(super) async fn call(&self, args: &[&str]) -> Result<Ran, Fault> {
        let mut ran = self.run(self.far_program(args).await?).await?;
        if Self::is_program_missing(ran.status) {
            self.bring_again().await?;
            ran = self.run(self.far_program(args).await?).await?;
        }
        match ran.status.code() {
            Some(0) => Ok(ran),
            _ => Err(self.unavailable(&format!("the host program said: {}", ran.complaint()))),
        }
    }

    async fn run(&self, command: Command) -> Result<Ran, Fault> {
        self.judge(programs::run(command, b"").await).await
    }

    /// What ssh or the engine says of itself is a fault.
    async fn judge(&self, ran: std::io::Result<Ran>) -> Result<Ran, Fault> {
        let ran = ran.map_err(|error| self.unavailable(&format!("ssh cannot be run: {error}")))?;
        match &self.reach {
            Reach::Ssh(_) if ran.status.code() == Some(SSH_FAILED) => Err(self.unavailable(&explain(&ran))),
            Reach::Container { name, engine } if !ran.is_ok() => {
                let engine = Engine::find(engine.as_deref(), &self.env)?;
                match engine.is_running(name).await {
                    Some(true) => Ok(ran),
                    Some(false) => {
                        Err(self.unavailable(&format!("it does not run; `{} start {name}`", engine.name())))
                    }
                    None => Err(engine.obstacle().await.unwrap_or_else(|| {
                        let name = engine.name();
                        self.unavailable(&format!(
                            "there is no such container; `{name} ps` tells which there are"
                        ))
                    })),
                }
            }
            _ => Ok(ran),
        }
    }

    /// Brings the host program, unless it is there. Returns its name over there.
    async fn install(&self) -> Result<String, Fault> {
        let program = self.host_program.file().map_err(|problem| self.unavailable(&problem))?;
        let (name, bytes) = self.load(program).await?;
        let here = self.run(self.calling(&name, &["--list", "none"])?).await?;
        if here.is_ok() {
            return Ok(name);
        }
        if matches!(self.reach, Reach::Ssh(_)) {
            self.check_machine().await?;
        }
        if here.status.code() != Some(NO_PROGRAM) {
            return Err(self.does_not_run(&here));
        }
        self.bring(&name, program, &bytes).await?;
        let there = self.run(self.calling(&name, &["--list", "none"])?).await?;
        match there.is_ok() {
            true => {
                tracing::info!(host = self.where_to(), name, "the host program was copied");
                Ok(name)
            }
            false => {
                self.run(self.command(self.remove_script(), &[&name])?).await?;
                Err(self.does_not_run(&there))
            }
        }
    }

    async fn bring(&self, name: &str, program: &Path, bytes: &[u8]) -> Result<(), Fault> {
        let brought = match &self.reach {
            Reach::Ssh(_) => {
                let command = self.command(INSTALL, &[name, &bytes.len().to_string()])?;
                self.judge(programs::run_within(COPY_TIMEOUT, command, bytes).await).await?
            }
            Reach::Container { name: container, engine } => {
                let target = format!("{container}:/.trl-{name}");
                let engine = Engine::find(engine.as_deref(), &self.env)?;
                engine.run([OsStr::new("cp"), program.as_os_str(), OsStr::new(&target)]).await?
            }
        };
        if brought.is_ok() {
            return Ok(());
        }
        let remedy = match brought.stderr.contains("No space left") {
            true => "there is no space left on its disk; free some",
            false => "try again, or look at its cache directory",
        };
        let what = format!("the host program could not be copied there: {}; {remedy}", brought.complaint());
        Err(self.unavailable(&what))
    }

    fn does_not_run(&self, ran: &Ran) -> Fault {
        let (said, remedy) = (ran.complaint(), self.host_program.remedy());
        self.unavailable(&format!("the host program does not run there: {said}; {remedy}"))
    }

    async fn load(&self, program: &Path) -> Result<(String, Vec<u8>), Fault> {
        let bytes = tokio::fs::read(program)
            .await
            .map_err(|error| self.unavailable(&format!("{} cannot be read: {error}", program.display())))?;
        let hash = Sha256::digest(&bytes);
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok((format!("host-{hash}"), bytes))
    }

    /// Refuses a machine that our host program is not for.
    async fn check_machine(&self) -> Result<(), Fault> {
        let told = self.run(self.command("uname -s; uname -m", &[])?).await?;
        let mut lines = told.stdout.lines();
        let (system, machine) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let ours = std::env::consts::ARCH;
        let same = machine == ours || (machine == "arm64" && ours == "aarch64");
        if system == "Linux" && same {
            return Ok(());
        }
        Err(self.unavailable(&format!(
            "it is a {system} machine of the architecture {machine:?}, and there is a host program for Linux on {ours} \
             only"
        )))
    }

    pub(super) fn unavailable(&self, what: &str) -> Fault {
        let (how, runtime) = match &self.reach {
            Reach::Ssh(target) => ("ssh to", format!("ssh:{}", target.destination)),
            Reach::Container { name, .. } => ("container", format!("container:@{name}")),
        };
        Fault::new(Code::RuntimeUnavailable, format!("{how} {}: {what}", self.where_to()))
            .with_details(serde_json::json!({ "runtime": runtime }))
    }
}

/// The client's own words, and what to do about the usual ones.
fn explain(ran: &Ran) -> String {
    let said = &ran.stderr;
    let remedy = if said.contains("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        "the key of that machine is not the known one, so it may not be that machine; if the change is right, remove \
         the old key with ssh-keygen -R"
    } else if said.contains("Host key verification failed") {
        "the key of that machine is not known; connect once with ssh and check it"
    } else if said.contains("Permission denied") {
        "it takes none of your keys; ssh there without a password must work (ssh-add, ssh-copy-id)"
    } else if said.contains("Could not resolve") {
        "there is no such name; check it, or add it to your ssh configuration"
    } else {
        "check that `ssh` to it works by hand"
    };
    format!("{}; {remedy}", ran.complaint())
}

/// As one word of a POSIX shell, and of the others that a login shell may be.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let target = |destination: &str, port| Some(Target { destination: destination.into(), port });
        assert_eq!(Target::parse("host"), target("host", None));
        assert_eq!(Target::parse("me@host.example:2222"), target("me@host.example", Some(2222)));
        for bad in ["", "-oProxyCommand=x", "host:", "host:0x1", "a b", "host;ls", "host:99999"] {
            assert_eq!(Target::parse(bad), None, "{bad}");
        }
    }
}
