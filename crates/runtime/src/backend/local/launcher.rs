//! The process that forks hosts (`crates/host/src/launcher.rs`), as the daemon sees it.
//!
//! It is started when the first host is needed, and again if somebody has killed it. It ends when its
//! socket does, so it does not outlive the daemon, however the daemon ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit};
use tokio::io::{AsyncReadExt as _, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use trl_protocol::wire::DAEMON_PID;

use super::LocalConfig;
use super::standby::SpareHost;
use crate::backend::Connection;
use crate::environment;

/// To fork takes less than a millisecond; on an overloaded machine it takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many more are tried if one does not answer.
const RETRIES: usize = 2;

/// How long it may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

const SEND_BUFFER: usize = 512 * 1024;

#[derive(Debug, Default)]
pub(super) struct Launcher(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    socket: UnixStream,
    process: Child,
    /// The daemon's when it was started.
    limits: Vec<Rlimit>,
}

impl Launcher {
    /// A new host, without a session.
    pub(super) async fn fork_host(&self, config: &LocalConfig) -> io::Result<SpareHost> {
        let mut running = self.0.lock().await;
        let mut failures = 0;
        loop {
            // Hosts have the daemon's limits, also if somebody has changed these.
            let known = running.take().filter(|known| known.limits == limits());
            let mut launcher = match known {
                Some(known) => known,
                None => Running::start(config)?,
            };
            match launcher.fork_host(config).await {
                Ok(forked) => {
                    *running = Some(launcher);
                    return forked;
                }
                // It is killed, so that its answer is not taken for the next one's, and nobody else forks later.
                Err(error) if failures == RETRIES => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "the launcher of hosts is of no use; another is started");
                    failures += 1;
                }
            }
        }
    }

    /// Ends it, unless it has become of use while another host was being forked. The next host starts another.
    pub(super) async fn clear_if(&self, is_unused: impl Fn() -> bool) {
        let ended = self.0.lock().await.take_if(|_| is_unused());
        let Some(Running { socket, mut process, .. }) = ended else { return };
        drop(socket);
        let ended = match tokio::time::timeout(END_TIMEOUT, process.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => process.kill().await,
        };
        tracing::debug!(?ended, "the launcher of hosts ended");
    }
}

impl Running {
    /// Spawning sets up nothing between fork and exec, so that it stays one cheap call.
    fn start(config: &LocalConfig) -> io::Result<Running> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        let process = Command::new(&config.host_program)
            .args(&config.host_args)
            .env_clear()
            .envs(environment::inherited(&config.env))
            .env(DAEMON_PID, std::process::id().to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::from(log(config)?))
            .kill_on_drop(true)
            .spawn()?;
        Ok(Running { socket, process, limits: limits() })
    }

    /// Fails if the launcher does not answer. Inside is what the system refuses, such as one more process.
    async fn fork_host(&mut self, config: &LocalConfig) -> io::Result<io::Result<SpareHost>> {
        let ends = connect().and_then(|(ours, theirs)| Ok((ours, theirs, log(config)?)));
        let (connection, theirs, log) = match ends {
            Ok(ends) => ends,
            Err(error) => return Ok(Err(error)),
        };
        let asked = async {
            let send = || trl_sys::descriptors::send(&self.socket, b"h", &[theirs.as_fd(), log.as_fd()]);
            self.socket.async_io(Interest::WRITABLE, send).await?;
            self.socket.read_i32_le().await
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, asked).await??;
        let keeper = u32::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer));
        Ok(keeper.map(|keeper| SpareHost::new(connection, keeper)))
    }
}

/// A host's connection: the daemon's end, and its own.
fn connect() -> io::Result<(Connection, StdUnixStream)> {
    let (ours, theirs) = StdUnixStream::pair()?;
    for end in [&ours, &theirs] {
        // Bulk output takes fewer system calls; if this fails, the default size works too.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, SEND_BUFFER);
    }
    ours.set_nonblocking(true)?;
    Ok((Connection::unix(UnixStream::from_std(ours)?)?, theirs))
}

/// What this process may use, as its children inherit it.
fn limits() -> Vec<Rlimit> {
    use Resource::{As, Core, Cpu, Data, Fsize, Memlock, Nofile, Nproc, Stack};
    let all = [As, Core, Cpu, Data, Fsize, Memlock, Nofile, Nproc, Stack];
    all.map(getrlimit).to_vec()
}

/// Where hosts write what they have to say when nobody is connected.
fn log(config: &LocalConfig) -> io::Result<File> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&config.host_log);
    log.or_else(|_| OpenOptions::new().write(true).open("/dev/null"))
}
