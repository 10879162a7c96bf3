//! A real `nats-server` of one test's own: on loopback, with JetStream in a directory that goes with it.

use rustix::process::Signal;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

use crate::own_port;
use crate::process;
use crate::wait::{GUARD, wait_until};

#[derive(Debug)]
pub struct Broker {
    dir: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Broker {
    /// Without users: whoever connects may do everything.
    pub fn open_to_all() -> Broker {
        Broker::with("")
    }

    /// With this in its config beside the address and the store.
    pub fn with(config: &str) -> Broker {
        let mut broker = Broker::prepare();
        broker.configure(config);
        broker.start();
        broker
    }

    /// A directory and a port, but no broker yet.
    pub fn prepare() -> Broker {
        Broker { dir: tempfile::tempdir().unwrap(), port: own_port(), child: None }
    }

    /// Where its config is; what that includes is found from here.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn configure(&self, config: &str) {
        let text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: {:?} }}\n{config}\n",
            self.port,
            self.dir.path().join("store")
        );
        std::fs::write(self.dir.path().join("server.conf"), text).unwrap();
    }

    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let child = Command::new(program())
            .arg("-c")
            .arg(self.dir.path().join("server.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        wait_until("a broker that listens", GUARD, || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the broker ended: {}", self.log());
            TcpStream::connect(self.address()).is_ok()
        });
    }

    /// Has it read its config anew.
    pub fn reload(&self) {
        let before = self.log().matches("Reloaded").count();
        process::signal(self.pid(), Signal::HUP);
        wait_until("a config that was read anew", GUARD, || self.log().matches("Reloaded").count() > before);
    }

    /// Ends it as an operator would.
    pub fn stop(&mut self) {
        process::signal(self.pid(), Signal::TERM);
        self.child.take().unwrap().wait().unwrap();
    }

    /// SIGKILL: what it had not written is lost.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    /// What it occupies in memory now.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// What it has used of the processors so far.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        let ticks: Vec<f64> =
            after_name.split_whitespace().skip(11).take(2).map(|n| n.parse().unwrap()).collect();
        ticks.iter().sum::<f64>() / rustix::param::clock_ticks_per_second() as f64
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Debian puts it where only root looks.
fn program() -> PathBuf {
    let usual = Path::new("/usr/sbin/nats-server");
    if usual.exists() { usual.to_owned() } else { PathBuf::from("nats-server") }
}
