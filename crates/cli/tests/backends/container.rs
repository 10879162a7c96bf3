//! The conformance suite in containers, with the podman of this machine.
//!
//! The image is made on the spot of busybox. What is missing on a machine is said, and
//! nothing is tried then.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_runtime::Config;
use trl_runtime::backend::{Backend, Container, ContainerPlace};

use super::conformance;
use super::daemon::{Daemon, Home, World};
use super::local::assert_empty;

const IMAGE: &str = "localhost/trl-test:latest";

/// crun fails with hybrid control groups, the limits that podman sets by default may be more than are allowed, and
/// a network of its own takes programs that may be missing.
const CONFIGURATION: &str = r#"
[engine]
runtime = "runc"
[containers]
netns = "none"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"#;

struct Containers {
    dir: TempDir,
    names: Mutex<Vec<PathBuf>>,
}

/// Why containers cannot be tried here, if so.
fn obstacle() -> Option<&'static str> {
    static OBSTACLE: OnceLock<Option<&'static str>> = OnceLock::new();
    *OBSTACLE.get_or_init(|| {
        let runs = |program: &str| {
            Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success())
        };
        if !runs("podman") {
            return Some("podman is not installed");
        }
        if !runs("/usr/sbin/runc") && !runs("runc") {
            return Some("runc is not installed");
        }
        if super::static_host().is_none() {
            return Some("scripts/build-host has not been run");
        }
        if !Path::new("/bin/busybox").exists() {
            return Some("busybox is not installed");
        }
        None
    })
}

impl Containers {
    /// `None` where containers cannot be tried.
    fn new() -> Option<Containers> {
        if let Some(obstacle) = obstacle() {
            eprintln!("skipped: {obstacle}");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("trl-con-").tempdir().unwrap();
        std::fs::write(dir.path().join("containers.conf"), CONFIGURATION).unwrap();
        let world = Containers { dir, names: Mutex::default() };
        world.make_image();
        Some(world)
    }

    fn podman(&self) -> Command {
        let mut command = Command::new("podman");
        command.env("CONTAINERS_CONF", self.dir.path().join("containers.conf"));
        command
    }

    /// Once per machine: every test uses the same.
    fn make_image(&self) {
        let lock = std::fs::File::create(std::env::temp_dir().join("trl-test-image.lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        if self.podman().args(["image", "exists", IMAGE]).status().unwrap().success() {
            return;
        }
        let root = self.dir.path().join("root");
        for dir in ["bin", "tmp", "etc", "root", "proc", "dev", "sys", "run"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for tool in ["sh", "sleep", "head", "tr", "seq", "setsid", "cat", "ls", "mkdir", "rm"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
        }
        std::fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
        let tar = self.dir.path().join("root.tar");
        let packed = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status().unwrap();
        assert!(packed.success());
        let imported = self.podman().arg("import").arg(&tar).arg(IMAGE).output().unwrap();
        assert!(imported.status.success(), "{imported:?}");
    }
}

impl World for Containers {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        let hosts = self.dir.path().join("run");
        let sessions = self.dir.path().join("sessions");
        *self.names.lock().unwrap() = vec![hosts.clone(), sessions.clone()];
        let mut config = config.clone();
        config.container_engine = Some("podman".into());
        config.static_host = super::static_host();
        let containers_conf = self.dir.path().join("containers.conf").display().to_string();
        config.env.insert("CONTAINERS_CONF".into(), containers_conf);
        config.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
        let place = ContainerPlace { image: IMAGE.into(), hosts, sessions };
        Arc::new(Container::new(&config, place).unwrap())
    }

    fn kill_host(&self, info: &Value) {
        let name = format!("trl-{}", info["session_id"].as_str().unwrap());
        let killed = self.podman().args(["kill", "-s", "KILL", &name]).output().unwrap();
        assert!(killed.status.success(), "{killed:?}");
        self.podman().args(["wait", &name]).output().unwrap();
    }

    fn assert_no_leftovers(&self) {
        for dir in self.names.lock().unwrap().iter() {
            assert_empty(dir);
        }
        let filter = format!("label=trl.state={}", self.dir.path().join("sessions").display());
        let listed = self.podman().args(["ps", "-a", "--format", "{{.Names}} {{.Labels}}"]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let ours = self.dir.path().display().to_string();
        assert!(!listed.contains(&ours), "{filter}: {listed}");
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        let listed = self.podman().args(["ps", "-a", "--format", "{{.Names}} {{.Labels}}"]).output();
        let listed =
            listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
        let ours = self.dir.path().display().to_string();
        for line in listed.lines().filter(|line| line.contains(&ours)) {
            let name = line.split(' ').next().unwrap_or_default();
            let _removed = self.podman().args(["rm", "-f", name]).output();
        }
    }
}

macro_rules! in_containers {
    ($($promise:ident,)*) => {$(
        #[test]
        fn $promise() {
            if let Some(world) = Containers::new() {
                conformance::$promise(&world);
            }
        }
    )*};
}

// Promises that are not kept in containers yet are listed in docs/runtimes.md.
in_containers!(
    output_streams_while_the_command_runs,
    destroying_leaves_nothing,
    the_end_of_the_daemon_ends_its_sessions,
);

#[test]
fn an_image_that_is_not_here_is_named_and_not_pulled() {
    let Some(world) = Containers::new() else { return };
    struct Missing<'a>(&'a Containers);
    impl World for Missing<'_> {
        fn backend(&self, config: &Config) -> Arc<dyn Backend> {
            self.0.backend(config);
            let mut config = config.clone();
            config.container_engine = Some("podman".into());
            config.static_host = super::static_host();
            config.env.insert("PATH".into(), "/usr/bin:/bin:/usr/sbin".into());
            let place = ContainerPlace {
                image: "localhost/no-such-image:1".into(),
                hosts: self.0.dir.path().join("run"),
                sessions: self.0.dir.path().join("sessions"),
            };
            Arc::new(Container::new(&config, place).unwrap())
        }
        fn kill_host(&self, _: &Value) {}
        fn assert_no_leftovers(&self) {
            self.0.assert_no_leftovers();
        }
    }
    let (home, missing) = (Home::new(), Missing(&world));
    let daemon = Daemon::start(&home, &missing);
    let message = daemon.fails("session.create", json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("podman pull localhost/no-such-image:1"), "{message}");
    missing.assert_no_leftovers();
    daemon.end();
}
