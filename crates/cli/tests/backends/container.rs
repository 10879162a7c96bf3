//! The conformance suite in containers, with the podman of this machine.
//!
//! The image is made on the spot of busybox. What is missing on a machine is said, and
//! nothing is tried then.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_runtime::Config;
use trl_runtime::backend::{Backend, Container, ContainerPlace, Ssh};

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
            trl_testkit::needs::skip(obstacle);
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

    fn configured(&self, config: &Config) -> Config {
        let mut config = config.clone();
        config.container_engine = Some("podman".into());
        config.static_host = super::static_host();
        let containers_conf = self.dir.path().join("containers.conf").display().to_string();
        config.env.insert("CONTAINERS_CONF".into(), containers_conf);
        config.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
        config
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
        let config = self.configured(config);
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

in_containers!(
    a_command_runs_and_its_state_stays,
    output_streams_while_the_command_runs,
    a_cancelled_command_ends_and_the_shell_stays,
    a_running_command_survives_the_daemon,
    what_a_command_finished_without_a_daemon_is_told_by_the_next,
    a_lost_host_leaves_its_output_and_can_be_restarted,
    a_host_lost_without_a_daemon_is_found_lost,
    destroying_leaves_nothing,
    the_end_of_the_daemon_ends_its_sessions,
    many_sessions_at_once_are_kept_apart,
    what_cannot_be_started_is_refused_and_leaves_nothing,
    files_are_those_of_the_place,
    a_fork_begins_with_the_state_of_its_origin,
    a_port_is_waited_for_where_the_session_runs,
);

/// Containers have a network of their own here.
#[test]
fn a_port_outside_the_container_does_not_count() {
    let Some(world) = Containers::new() else { return };
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let home = Home::new();
    let daemon = Daemon::start(&home, &world);
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    let exec = daemon.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": "read line"}));
    let until = json!({"exec_id": exec["exec_id"], "until": {"port": {"port": port}}});
    let waiting = daemon.begin(m::ExecWait::NAME, until);
    daemon.ok(m::ExecWrite::NAME, json!({"exec_id": exec["exec_id"], "data": "go\n"}));
    assert_eq!(waiting.answer().unwrap_err()["code"], "COMMAND_FAILED");
    daemon.end();
    world.assert_no_leftovers();
}

/// Isolation and limits are the engine's business, and are told.
#[test]
fn isolation_and_limits_become_options_of_the_engine() {
    let Some(world) = Containers::new() else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &world);
    let create = json!({
        "name": "s", "working_dir": "/work", "isolation": "workspace", "limits": {"memory": "64M", "open_files": 64},
    });
    daemon.ok(m::SessionCreate::NAME, create);
    let report = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["isolation"].clone();
    let enforced: Vec<&str> =
        report["enforced"].as_array().unwrap().iter().filter_map(|it| it["what"].as_str()).collect();
    for what in ["limit memory", "limit open_files", "no network", "read-only system"] {
        assert!(enforced.contains(&what), "{report}");
    }
    let command =
        "echo x >/etc/x; echo $?; echo x >/tmp/x && echo x >/work/x && cat /tmp/x /work/x; ulimit -n";
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}));
    assert_eq!(ran["stdout"], "1\nx\nx\n64\n", "{ran}");
    let name = format!(
        "trl-{}",
        daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["session_id"].as_str().unwrap()
    );
    let told = world
        .podman()
        .args(["container", "inspect", "--format"])
        .arg("{{.HostConfig.Memory}}")
        .arg(&name)
        .output();
    assert_eq!(String::from_utf8_lossy(&told.unwrap().stdout).trim(), "67108864");
    let allow = json!({"isolation": {"profile": "strict", "net": {"allow": ["x.example"]}}});
    daemon.fails(m::SessionCreate::NAME, allow, "ISOLATION_UNAVAILABLE");
    daemon.end();
    world.assert_no_leftovers();
}

/// The engine sets the limits, the container's own control group says which was hit.
#[test]
fn limits_are_accepted_and_told() {
    let Some(world) = Containers::new() else { return };
    let home = Home::new();
    let daemon = Daemon::start(&home, &world);
    let limits = json!({"disk": "1M", "memory": "64M", "pids": 12});
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s", "isolation": "workspace", "limits": limits}));
    let report = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["isolation"].clone();
    assert!(report["enforced"].to_string().contains("limit disk"), "{report}");
    let run = |command: &str| daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}));
    let ran = run("head -c 2000000 /dev/zero >/tmp/x");
    assert_ne!(ran["exit_code"], 0, "{ran}");
    let ran = run("(head -c 200000000 /dev/zero | tr -d x >/dev/null; :) && echo fine");
    assert_eq!((&ran["stdout"], ran.get("limit")), (&json!("fine\n"), None), "{ran}");
    let ran = run("(x=$(head -c 100000000 /dev/zero | tr '\\0' x)); true");
    assert_eq!(ran["limit"], "memory", "{ran}");
    assert!(
        !Path::new("oom").exists(),
        "what watches the container leaves nothing in the daemon's directory"
    );
    let ran = run("(for i in $(seq 30); do sleep 100 & done; wait); true");
    assert_eq!(ran["limit"], "pids", "{ran}");
    daemon.fails(m::SessionCreate::NAME, json!({"limits": {"disk": "1M"}}), "ISOLATION_UNAVAILABLE");
    daemon.end();
    world.assert_no_leftovers();
}

/// Neither what the image has there nor what is mounted.
#[test]
fn what_is_hidden_is_empty() {
    let Some(world) = Containers::new() else { return };
    let home = Home::new();
    let data = tempfile::tempdir_in(world.dir.path()).unwrap();
    std::fs::create_dir(data.path().join("dir")).unwrap();
    for file in ["seen", "file", "dir/file"] {
        std::fs::write(data.path().join(file), "content").unwrap();
    }
    let data = data.path().display().to_string();
    let hide = [format!("{data}/dir"), format!("{data}/file"), "/root".into(), "/etc".into()];
    let isolation = json!({"profile": "workspace", "read": [data], "hide": hide});
    let daemon = Daemon::start(&home, &world);
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s", "isolation": isolation, "limits": {"disk": "1M"}}));
    let command = format!("ls /etc; ls {data}/dir; cat {data}/file; cat {data}/seen; cat /etc/passwd");
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": command}));
    let stdout = ran["stdout"].as_str().unwrap();
    // The engine itself puts a few files into /etc.
    assert!(stdout.ends_with("content") && !stdout.contains("passwd") && !stdout.contains("root:"), "{ran}");
    assert_eq!(stdout.matches("content").count(), 1, "{ran}");
    daemon.end();
    world.assert_no_leftovers();
}

/// A container that somebody else has started, and that stays.
struct Running<'a> {
    containers: &'a Containers,
    name: String,
}

impl<'a> Running<'a> {
    fn start(containers: &'a Containers) -> Running<'a> {
        let id = containers.dir.path().file_name().unwrap().to_string_lossy().replace('.', "");
        let name = format!("trl-running-{id}");
        let label = format!("trl.state={}", containers.dir.path().display());
        let started = containers
            .podman()
            .args(["run", "-d", "--name", &name, "--label", &label, IMAGE, "sleep", "100000"])
            .output()
            .unwrap();
        assert!(started.status.success(), "{started:?}");
        Running { containers, name }
    }
}

impl World for Running<'_> {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        let config = self.containers.configured(config);
        let near = self.containers.dir.path().join("near");
        Arc::new(Ssh::in_container(&config, &self.name, "test".into(), near).unwrap())
    }

    fn kill_host(&self, _: &Value) {}

    fn assert_no_leftovers(&self) {
        for dir in ["hosts", "sessions"] {
            let path = format!("/root/.local/state/trl/far/test/{dir}");
            let listed = self.containers.podman().args(["exec", &self.name, "ls", &path]).output().unwrap();
            let left = String::from_utf8_lossy(&listed.stdout).into_owned();
            let left: Vec<&str> = left.lines().filter(|name| !name.ends_with(".relay")).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

#[test]
fn sessions_live_in_a_container_that_runs_already() {
    let Some(containers) = Containers::new() else { return };
    let world = Running::start(&containers);
    conformance::a_running_command_survives_the_daemon(&world);
    let home = Home::new();
    let daemon = Daemon::start(&home, &world);
    daemon.ok(m::SessionCreate::NAME, json!({"name": "s"}));
    let ran = daemon.ok(m::ExecRun::NAME, json!({"session_id": "s", "command": "x=5; echo $HOSTNAME; pwd"}));
    assert_eq!(ran["exit_code"], 0, "{ran}");
    let killed = containers.podman().args(["kill", &world.name]).output().unwrap();
    assert!(killed.status.success(), "{killed:?}");
    trl_testkit::wait_until("the session is lost", trl_testkit::GUARD, || {
        daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["state"] == "lost"
    });
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("podman start"), "{message}");
    daemon.end();
}

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
    let message = daemon.fails(m::SessionCreate::NAME, json!({}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("podman pull localhost/no-such-image:1"), "{message}");
    missing.assert_no_leftovers();
    daemon.end();
}
