//! What a session asks for as options of the container engine, and what to tell of it.

use std::path::Path;

use trl_confine::plan::Look;
use trl_protocol::isolation::{Enforced, Isolation, IsolationReport, Missing, Net};
use trl_protocol::session::SessionLimits;
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Code, Fault};

use super::given::{Cover, Given, mountable};

/// The host, its keeper and the shell are processes of the container, too.
const OWN_PROCESSES: u64 = 3;

/// What the options depend on.
#[derive(Debug)]
pub(super) struct EngineTraits {
    pub(super) name: String,
    /// See [`super::Engine::empty_option`].
    pub(super) empty_option: &'static str,
}

/// Options for one container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) args: Vec<String>,
    /// What the engine enforces, if anything was asked for.
    pub(super) report: Option<IsolationReport>,
}

impl Options {
    /// Of a session, for this engine. `look` looks at paths of this machine.
    pub(super) fn of(spec: &SessionSpec, engine: &EngineTraits, look: Look<'_>) -> Result<Options, Fault> {
        let mut options = Options::default();
        for mount in &spec.mounts {
            options.add(["-v", mount]);
        }
        options.limit(&spec.limits, engine);
        if let Some(isolation) = spec.isolation.as_ref().filter(|isolation| !isolation.is_none()) {
            options.isolate(isolation, spec, engine, look)?;
        }
        Ok(options)
    }

    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.args.extend(words.map(str::to_owned));
    }

    fn enforce<const N: usize>(&mut self, engine: &EngineTraits, what: &str, words: [&str; N]) {
        let by = format!("{} {}", engine.name, words.join(" "));
        self.add(words);
        self.report().enforced.push(Enforced { what: what.to_owned(), by });
    }

    fn report(&mut self) -> &mut IsolationReport {
        self.report.get_or_insert_default()
    }

    fn limit(&mut self, limits: &SessionLimits, engine: &EngineTraits) {
        if let Some(memory) = limits.memory {
            let bytes = memory.0.to_string();
            // With as much swap as memory in all, so that there is no more of it than was asked for.
            self.enforce(engine, "limit memory", ["--memory", &bytes, "--memory-swap", &bytes]);
        }
        if let Some(pids) = limits.pids {
            let most = (pids.saturating_add(OWN_PROCESSES)).to_string();
            self.enforce(engine, "limit pids", ["--pids-limit", &most]);
        }
        if let Some(cpu) = limits.cpu {
            self.enforce(engine, "limit cpu", ["--cpus", &cpu.to_string()]);
        }
    }

    fn isolate(
        &mut self,
        isolation: &Isolation,
        spec: &SessionSpec,
        engine: &EngineTraits,
        look: Look<'_>,
    ) -> Result<(), Fault> {
        if isolation.root.is_some() {
            return Err(Fault::invalid("param `isolation.root`: a container's root is its image")
                .with_details(serde_json::json!({ "field": "isolation.root" })));
        }
        self.report().requested = isolation.clone();
        self.enforce(engine, "read-only system", ["--read-only"]);
        let size = spec.limits.disk.map(|size| format!(",size={}", size.0)).unwrap_or_default();
        let private = format!("/tmp:rw,mode=1777{size}");
        self.enforce(engine, "private /tmp", ["--tmpfs", &private]);
        if spec.limits.disk.is_some() {
            let by = format!("{} --tmpfs {private}", engine.name);
            self.report().enforced.push(Enforced { what: "limit disk".to_owned(), by });
        }
        self.enforce(engine, "no capabilities", ["--cap-drop", "ALL"]);
        self.enforce(engine, "no new privileges", ["--security-opt", "no-new-privileges"]);
        self.network(isolation, engine)?;
        let given = Given::of(isolation, spec, look)?;
        for part in &given.parts {
            self.add(["-v", &part.mount()?]);
        }
        for cover in &given.covers {
            match cover {
                Cover::Dir(path) => self.enforce(
                    engine,
                    &format!("{path} is hidden"),
                    ["--tmpfs", &format!("{path}:ro,size=64k{}", engine.empty_option)],
                ),
                Cover::File(path) => {
                    self.enforce(
                        engine,
                        &format!("{path} is hidden"),
                        ["-v", &format!("/dev/null:{path}:ro")],
                    );
                }
            }
        }
        self.workspace(isolation, spec)?;
        Ok(())
    }

    fn network(&mut self, isolation: &Isolation, engine: &EngineTraits) -> Result<(), Fault> {
        match &isolation.net {
            Net::None => self.enforce(engine, "no network", ["--network", "none"]),
            Net::Full => {}
            Net::Allow(_) if isolation.best_effort => {
                self.enforce(engine, "no network", ["--network", "none"]);
                self.report().missing.push(Missing {
                    what: "network to the allowed hosts".to_owned(),
                    why: "containers have no proxy".to_owned(),
                    remedy: "`net:\"full\"`".to_owned(),
                });
            }
            Net::Allow(_) => {
                return Err(Fault::new(
                    Code::IsolationUnavailable,
                    "param `isolation.net`: a container has no network or the whole one (`none`, `full`); single \
                     hosts cannot be allowed",
                ));
            }
        }
        Ok(())
    }

    /// The directory that the session begins in can be written: a volume of the container's own, unless a
    /// directory of this machine is mounted there.
    fn workspace(&mut self, isolation: &Isolation, spec: &SessionSpec) -> Result<(), Fault> {
        let wanted = spec.resolve.as_ref().and_then(|resolve| resolve.working_dir.as_deref());
        let dir = wanted.unwrap_or(&spec.working_dir);
        let inside = |mounted: &str| dir == mounted || dir.starts_with(&format!("{mounted}/"));
        let is_mounted = spec.mounts.iter().filter_map(|mount| mount.split(':').nth(1)).any(inside)
            || isolation.write.iter().any(|path| inside(path))
            || inside("/tmp");
        if dir.starts_with('/') && dir != "/" && !is_mounted {
            self.add(["-v", mountable(Path::new(dir))?]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trl_confine::plan::Kind;

    fn options(isolation: serde_json::Value, limits: serde_json::Value) -> Result<Options, Fault> {
        options_in("/w", isolation, limits)
    }

    fn options_in(
        dir: &str,
        isolation: serde_json::Value,
        limits: serde_json::Value,
    ) -> Result<Options, Fault> {
        let spec = json!({
            "session_id": "s-00000001", "name": null, "shell": "", "shell_path": "", "dialect": "sh", "env": {},
            "env_keys": [], "working_dir": dir, "timeout_s": 1.0, "idle_timeout_s": 1.0, "ttl_s": 1.0, "tty": false,
            "rc": false, "limits": limits, "state_dir": "", "socket": "", "isolation": isolation,
            "mounts": ["/here:/there"], "hidden_dirs": ["/run/user/7/trl", "/home/me/.local/state/trl", "/home/me/token"],
        });
        let engine = EngineTraits { name: "podman".to_owned(), empty_option: ",notmpcopyup" };
        Options::of(&serde_json::from_value(spec).unwrap(), &engine, &machine)
    }

    fn machine(path: &Path) -> Option<Kind> {
        Some(match path.to_str()? {
            "/data/file" | "/etc/shadow" | "/home/me/token" => Kind::File,
            "/everything" => Kind::Link("/".into()),
            "/devices" | "/here/devices" => Kind::Link("/dev".into()),
            "/kernel" => Kind::Link("/sys/kernel".into()),
            "/socket" => Kind::Link("/run/user/7/trl".into()),
            "/also-data" => Kind::Link("data".into()),
            "/here/out" => Kind::Link("/data".into()),
            "/gone" | "/data/gone" | "/etc/passwd" => return None,
            _ => Kind::Dir,
        })
    }

    #[test]
    fn limits_and_isolation_become_options() {
        let plain = options(json!(null), json!({})).unwrap();
        assert_eq!((plain.args.join(" ").as_str(), plain.report), ("-v /here:/there", None));
        let limits = json!({"memory": "64M", "pids": 10, "cpu": 1.5, "open_files": 64});
        let bounded = options(json!(null), limits).unwrap();
        assert_eq!(
            bounded.args.join(" "),
            "-v /here:/there --memory 67108864 --memory-swap 67108864 --pids-limit 13 --cpus 1.5"
        );
        assert_eq!(bounded.report.unwrap().enforced.len(), 3);
        let isolation = json!({"profile": "workspace", "read": ["/data"], "hide": ["/secret"]});
        let isolated = options(isolation, json!({"disk": "1M"})).unwrap();
        assert_eq!(
            isolated.args.join(" "),
            "-v /here:/there --read-only --tmpfs /tmp:rw,mode=1777,size=1048576 --cap-drop ALL --security-opt \
             no-new-privileges --network none -v /data:/data:ro --tmpfs /secret:ro,size=64k,notmpcopyup -v /w"
        );
    }

    #[test]
    fn what_is_hidden_is_hidden_by_every_name() {
        let isolation = json!({"profile": "workspace", "read": ["/also-data", "/etc"], "hide": ["/data/file", "/data/dir"]});
        let args = options(isolation, json!({})).unwrap().args.join(" ");
        for part in [
            "-v /data:/data:ro",
            "-v /data:/also-data:ro",
            "-v /etc:/etc:ro",
            "-v /dev/null:/data/file:ro",
            "-v /dev/null:/also-data/file:ro",
            "--tmpfs /data/dir:",
            "--tmpfs /also-data/dir:",
            "-v /dev/null:/etc/shadow:ro",
        ] {
            assert!(args.contains(part), "{part}: {args}");
        }
        // The engine would make a directory there, on this machine.
        let missing = json!({"profile": "workspace", "write": ["/data"], "hide": ["/data/gone"]});
        assert_eq!(options(missing, json!({})).unwrap_err().code, Code::InvalidParams);
    }

    #[test]
    fn what_an_engine_cannot_do_is_refused() {
        for (isolation, code) in [
            (json!({"profile": "strict", "net": {"allow": ["x.org"]}}), Code::IsolationUnavailable),
            (json!({"profile": "strict", "root": "/r"}), Code::InvalidParams),
            (json!({"profile": "strict", "read": ["a"]}), Code::InvalidParams),
            (json!({"profile": "strict", "write": ["/a:/b"]}), Code::InvalidParams),
        ] {
            assert_eq!(options(isolation.clone(), json!({})).unwrap_err().code, code, "{isolation}");
        }
        let less = json!({"profile": "strict", "net": {"allow": ["x.org"]}, "best_effort": true});
        assert_eq!(options(less, json!({})).unwrap().report.unwrap().missing.len(), 1);
    }

    #[test]
    fn what_a_local_session_is_never_given_no_container_is() {
        for path in [
            "/",
            "//",
            "/everything",
            "/proc",
            "/proc/1",
            "/sys",
            "/sys/fs",
            "/kernel",
            "/dev",
            "/dev/shm",
            "/devices",
            "/here/devices",
            "/here/out",
            "/run/user/7/trl",
            "/run/user/7/trl/sock",
            "/socket",
            "/home/me/token",
            "/home/me/.local/state/trl/mail",
            "/run",
            "/run/user",
            "/home",
            "/home/me",
            "/gone",
            "/a/../b",
            "a",
            "/a:/b",
        ] {
            for field in ["read", "write"] {
                let refused = options(json!({"profile": "workspace", (field): [path]}), json!({}));
                let refused = refused.map(|options| options.args).unwrap_err();
                assert_eq!(refused.code, Code::InvalidParams, "{field} {path}");
            }
        }
        for path in ["/", "/proc/sys", "/dev", "a", "/a:/b"] {
            let refused = options(json!({"profile": "workspace", "hide": [path]}), json!({}));
            assert_eq!(refused.unwrap_err().code, Code::InvalidParams, "{path}");
        }
        // It would be a directory of this machine and where it is mounted.
        let refused = options_in("/home:/there", json!({"profile": "workspace"}), json!({}));
        assert_eq!(refused.unwrap_err().code, Code::InvalidParams);
    }
}
