//! Running other programs to their end: container engines and the SSH client.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// No program that is run here takes as long; one that does hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a program printed and how it ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Ran {
    pub(super) fn is_ok(&self) -> bool {
        self.status.success()
    }

    /// The last line that says something, for a message; what is on stderr comes before what is on stdout.
    pub(super) fn complaint(&self) -> String {
        let lines = self.stdout.lines().chain(self.stderr.lines());
        let said: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
        match said.last() {
            Some(line) => line.chars().take(500).collect(),
            None => self.status.to_string(),
        }
    }
}

/// Runs a program with something on its stdin. It is killed if it takes too long.
pub(super) async fn run(command: Command, stdin: &[u8]) -> io::Result<Ran> {
    run_within(TIMEOUT, command, stdin).await
}

/// The same for one that may take its own time.
pub(super) async fn run_within(patience: Duration, mut command: Command, stdin: &[u8]) -> io::Result<Ran> {
    let mut child = command
        .stdin(if stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let pipe = child.stdin.take();
    let feed = async {
        if let Some(mut pipe) = pipe {
            // A program that ends early says why on its stderr.
            let _ = pipe.write_all(stdin).await;
            let _ = pipe.shutdown().await;
        }
    };
    let ended = async { tokio::join!(child.wait_with_output(), feed).0 };
    let output = tokio::time::timeout(patience, ended).await.map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, format!("took longer than {} s", patience.as_secs()))
    })??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) })
}

/// Where a program is, by the `PATH` of an environment.
pub(super) fn find(name: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    let path = env.get("PATH").map_or("", String::as_str);
    let dirs = path.split(':').filter(|dir| dir.starts_with('/'));
    dirs.map(|dir| Path::new(dir).join(name)).find(|path| is_program(path))
}
