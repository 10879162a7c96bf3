//! `session.create`: a place in the registry, then a host, then a living session.
//!
//! A session whose client is gone before it could hear of it is ended again: nobody
//! would know that it is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trl_confine::hosts::Hosts;
use trl_protocol::change::Change;
use trl_protocol::ids::is_session_name;
use trl_protocol::isolation::{Isolation, Net};
use trl_protocol::session::{CreateParams, Created, Durability, SessionInfo, SessionLimits, SessionState};
use trl_protocol::wire::{Dialect, Resolve, SessionSpec};
use trl_protocol::{Code, Fault, SessionId};

use super::destroy;
use crate::backend::{Backend, Prepared, Shell, StartRequest};
use crate::caller::Caller;
use crate::grants::rules;
use crate::place::Place;
use crate::registry::Reservation;
use crate::runtime::Inner;
use crate::runtime_choice::{Choice, choose};
use crate::session::Session;
use crate::{Config, NamedRuntime, environment, kept_state, remote, root_shell, seconds};

/// How long the reply waits for the shell's start-up files before it says `creating`.
const STARTUP_PATIENCE: Duration = Duration::from_secs(2);

/// How long the output of a command in a temporary session stays readable after its end.
const TEMPORARY_IDLE_S: f64 = 300.0;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: CreateParams,
    caller: &Caller,
) -> Result<Created, Fault> {
    let Choice { place, reason, named } = choose(runtime, params.runtime.as_deref())?;
    let backend = match place {
        Place::Daemon(daemon) => return remote::create(runtime, daemon, named, reason, params, caller).await,
        Place::Hosts(backend) => backend,
    };
    let mut plan = Plan::of(runtime, backend, named, params).await?;
    plan.is_granted = caller.grant.is_some();
    let id = free_id(runtime, &*plan.backend).await?;
    let reservation = runtime.registry.reserve(plan.name.as_deref(), id)?;
    claim(runtime, id, caller)?;
    let backend = Arc::clone(&plan.backend);
    let made = make(runtime, backend, plan.into_spec(runtime, id), reservation).await?;
    Ok(Created { runtime_reason: reason, ..introduce(&made, caller).await? })
}

/// The reply about a new session, once its shell is ready, or takes long to be.
pub(super) async fn introduce(session: &Arc<Session>, caller: &Caller) -> Result<Created, Fault> {
    session.await_start(STARTUP_PATIENCE).await?;
    if caller.is_gone() {
        tracing::info!(session = %session.id, "the client disconnected before it got the session: it is ended");
        destroy::end(session, true).await?;
    }
    let info = session.last_info();
    Ok(Created {
        session_id: info.session_id,
        name: info.name,
        shell: info.shell,
        working_dir: info.working_dir,
        state: info.state,
        created_at: info.created_at,
        pid: info.pid,
        runtime: info.runtime,
        runtime_reason: None,
    })
}

/// A session for one command; it does not count against the limit on sessions.
pub(crate) async fn temporary(runtime: &Arc<Inner>, caller: &Caller) -> Result<Arc<Session>, Fault> {
    let mut params = CreateParams { idle_timeout_s: Some(TEMPORARY_IDLE_S), ..CreateParams::default() };
    if let Some(grant) = &caller.grant {
        params = rules::create_params(&runtime.grants.active(grant)?, params, runtime.config.journal_bytes)?;
    }
    let mut plan = Plan::of(runtime, Arc::clone(runtime.backends.default()), None, params).await?;
    plan.is_granted = caller.grant.is_some();
    let id = free_id(runtime, &*plan.backend).await?;
    let reservation = runtime.registry.reserve_temporary(id)?;
    claim(runtime, id, caller)?;
    let backend = Arc::clone(&plan.backend);
    make(runtime, backend, plan.into_spec(runtime, id), reservation).await
}

/// Notes whose session this is, before its host starts.
pub(super) fn claim(runtime: &Inner, id: SessionId, caller: &Caller) -> Result<(), Fault> {
    runtime.grants.claim(id, caller.grant.as_ref(), |id| runtime.registry.is_present(id))
}

/// What was asked for, resolved; only the id is missing.
#[derive(Debug)]
struct Plan {
    name: Option<String>,
    backend: Arc<dyn Backend>,
    prepared: Prepared,
    wanted: Resolve,
    env: BTreeMap<String, String>,
    timeout_s: f64,
    idle_timeout_s: f64,
    tty: bool,
    rc: bool,
    replace_env: bool,
    durability: Durability,
    limits: SessionLimits,
    isolation: Option<Isolation>,
    mounts: Vec<String>,
    keep_state: Option<String>,
    restore_state: Option<String>,
    /// Somebody else's session: of the daemon's environment it gets only what programs need.
    is_granted: bool,
}

impl Plan {
    async fn of(
        runtime: &Inner,
        backend: Arc<dyn Backend>,
        named: Option<NamedRuntime>,
        params: CreateParams,
    ) -> Result<Plan, Fault> {
        let config = &runtime.config;
        if let Some(name) = &params.name {
            check_name(name)?;
        }
        let env = params.env.unwrap_or_default();
        environment::check(&env)?;
        let limits = params.limits.unwrap_or_default();
        check_limits(&limits)?;
        let journal_bytes = Some(limits.journal_bytes.unwrap_or(config.journal_bytes));
        let (default, mounts) = match named {
            Some(named) => (named.isolation.or_else(|| config.isolation.clone()), named.mounts),
            None => (config.isolation.clone(), Vec::new()),
        };
        let is_here = backend.name() == "local";
        // One that enforces nothing may still accept limits that cannot be enforced.
        let says_something = |asked: &Isolation| !asked.is_none() || (is_here && asked.best_effort);
        let isolation = params.isolation.or(default).filter(says_something);
        if let Some(Isolation { net: Net::Allow(hosts), .. }) = &isolation {
            if !is_here {
                let message = "param `isolation`: net.allow: only sessions on this machine (`runtime: local`) can have a list of hosts; use `none` or `full`";
                return Err(Fault::new(Code::IsolationUnavailable, message));
            }
            Hosts::parse(hosts).map_err(|error| {
                Fault::invalid(format!("param `isolation`: {error}"))
                    .with_details(serde_json::json!({ "field": "isolation.net.allow" }))
            })?;
        }
        // The file is on this machine.
        let kept = |field: &str, name: &Option<String>| match name.as_deref().filter(|_| is_here) {
            Some(name) => kept_state::file(&config.state_dir, field, name).map(Some),
            None => Ok(None),
        };
        let keep_state = kept("keep_state", &params.keep_state)?;
        let restore_state = kept("restore_state", &params.restore_state)?;
        let root = isolation.as_ref().and_then(|isolation| isolation.root.as_deref()).filter(|_| is_here);
        let asked = params.shell.as_deref();
        let wanted = StartRequest {
            shell: asked.filter(|_| root.is_none()),
            working_dir: params.working_dir.as_deref(),
        };
        let mut prepared = backend.prepare(wanted).await?;
        if let (Some(root), Prepared::Known { shell, .. }) = (root, &mut prepared) {
            *shell = root_shell::find(root, asked)?;
        }
        Ok(Plan {
            timeout_s: seconds::checked("timeout_s", params.timeout_s.unwrap_or(config.default_timeout_s))?,
            idle_timeout_s: seconds::checked(
                "idle_timeout_s",
                params.idle_timeout_s.unwrap_or(config.max_idle_s),
            )?,
            tty: params.tty.unwrap_or(false),
            rc: params.rc.unwrap_or(false),
            replace_env: params.replace_env.unwrap_or(false),
            durability: params.durability.unwrap_or_default(),
            limits: SessionLimits { journal_bytes, ..limits },
            isolation,
            keep_state,
            restore_state,
            is_granted: false,
            name: params.name,
            env,
            backend,
            mounts,
            prepared,
            wanted: Resolve { shell: params.shell, working_dir: params.working_dir },
        })
    }

    /// Where the host keeps its files and where it listens is for the backend to say.
    fn into_spec(self, runtime: &Inner, id: SessionId) -> SessionSpec {
        let (shell, working_dir, mut base, resolve) = match self.prepared {
            Prepared::Known { shell, working_dir, env } => (shell, working_dir, env, None),
            Prepared::ByHost => {
                let unknown = Shell { name: String::new(), path: String::new(), dialect: Dialect::Sh };
                (unknown, String::new(), BTreeMap::new(), Some(self.wanted))
            }
        };
        if self.is_granted {
            base.retain(|name, _| rules::is_inherited(name));
        }
        let mut env = match self.replace_env {
            true => self.env.clone(),
            false => environment::of_session(base, &self.env, self.tty),
        };
        environment::identify(&mut env, &runtime.config, id, self.name.as_deref());
        SessionSpec {
            session_id: id,
            name: self.name,
            shell: shell.name,
            shell_path: shell.path,
            dialect: shell.dialect,
            env,
            env_keys: self.env.into_keys().collect(),
            working_dir,
            timeout_s: self.timeout_s,
            idle_timeout_s: self.idle_timeout_s,
            ttl_s: runtime.config.session_ttl_s,
            tty: self.tty,
            rc: self.rc,
            limits: self.limits,
            state_dir: String::new(),
            socket: String::new(),
            resume: false,
            keep_state: self.keep_state,
            restore_state: self.restore_state,
            begin_with: None,
            open_files: None,
            durability: self.durability,
            resolve,
            isolation: self.isolation,
            hidden_dirs: hidden_dirs(&runtime.config),
            mounts: self.mounts,
            outside: None,
        }
    }
}

/// What `session.list` tells until the host answers.
fn description(spec: &SessionSpec, backend: &dyn Backend) -> SessionInfo {
    let now = format!("{:.3}", jiff::Timestamp::now());
    let (shell, working_dir) = match &spec.resolve {
        None => (spec.shell.clone(), spec.working_dir.clone()),
        Some(wanted) => {
            (wanted.shell.clone().unwrap_or_default(), wanted.working_dir.clone().unwrap_or_default())
        }
    };
    SessionInfo {
        session_id: spec.session_id,
        name: spec.name.clone(),
        shell,
        working_dir,
        state: SessionState::Creating,
        env_keys: spec.env_keys.clone(),
        created_at: now.clone(),
        last_activity: now,
        command_count: 0,
        timeout_s: spec.timeout_s,
        idle_timeout_s: spec.idle_timeout_s,
        pid: None,
        host_pid: 0,
        restarts: 0,
        tty: spec.tty,
        stdout_bytes: 0,
        stderr_bytes: 0,
        running: None,
        queued: 0,
        unresponsive: false,
        runtime: Some(backend.display_name().to_owned()),
        foreign: None,
        damage: None,
        startup_output: None,
        confinement: Default::default(),
    }
}

/// What an isolated session never sees, whatever else it is given.
pub(super) fn hidden_dirs(config: &Config) -> Vec<String> {
    let dirs =
        [Some(&config.runtime_dir), Some(&config.state_dir), Some(&config.mail_dir), config.socket.as_ref()];
    // Tokens of other daemons may still be missing, and nothing is lost then.
    let tokens =
        config.runtimes.iter().filter_map(|runtime| runtime.token_file.as_ref()).chain(&config.tokens_dir);
    let tokens = tokens.filter(|path| path.exists());
    let dirs = dirs.into_iter().flatten().chain(&config.private_paths).chain(tokens);
    dirs.filter_map(|dir| dir.to_str()).map(str::to_owned).collect()
}

/// A limit of nothing would end the session as it begins.
pub(crate) fn check_limits(limits: &SessionLimits) -> Result<(), Fault> {
    let refuse = |field: &str, least: &str| {
        Err(Fault::invalid(format!("param `limits.{field}`: a session needs at least {least}"))
            .with_details(serde_json::json!({ "field": format!("limits.{field}") })))
    };
    let positive = |number: Option<f64>| number.is_none_or(|number| number.is_finite() && number > 0.0);
    match limits {
        limits if limits.memory.is_some_and(|size| size.0 < 4 << 20) => refuse("memory", "4M"),
        limits if limits.pids.is_some_and(|pids| pids < 4) => refuse("pids", "4 processes"),
        limits if limits.open_files.is_some_and(|files| files < 32) => refuse("open_files", "32 files"),
        limits if limits.disk.is_some_and(|size| size.0 < 1 << 16) => refuse("disk", "64K"),
        limits if !positive(limits.cpu) => refuse("cpu", "a part of a processor"),
        limits if !positive(limits.cpu_time_s) => refuse("cpu_time_s", "some time"),
        _ => Ok(()),
    }
}

/// Starts the session's host, in a task of its own: a client that goes away must not leave half a session.
pub(super) async fn make(
    runtime: &Arc<Inner>,
    backend: Arc<dyn Backend>,
    spec: SessionSpec,
    reservation: Reservation,
) -> Result<Arc<Session>, Fault> {
    let runtime = Arc::clone(runtime);
    let making = tokio::spawn(async move {
        let made = start(&runtime, backend, spec, reservation).await;
        // Those who wait for the session hear of its end also if the client that asked for it is gone.
        runtime.settle();
        made
    });
    making.await.unwrap_or_else(|error| Err(Fault::internal(format!("session.create: {error}"))))
}

async fn start(
    runtime: &Arc<Inner>,
    backend: Arc<dyn Backend>,
    spec: SessionSpec,
    reservation: Reservation,
) -> Result<Arc<Session>, Fault> {
    let id = reservation.id;
    reservation.describe(description(&spec, &*backend));
    runtime.backends.remember(&*backend);
    let started = backend.start(spec).await;
    runtime.health.note(&*backend, started.as_ref().map(drop));
    match started {
        Ok(started) => {
            tracing::info!(session = %id, host = started.host.describe(), "a session was created");
            let enter = |session| reservation.fill(session);
            Ok(runtime.take_over(&backend, started.greeted, started.host, enter, Change::Created))
        }
        Err(fault) => {
            backend.remove(id).await;
            drop(reservation);
            runtime.release_unused(&*backend);
            Err(fault)
        }
    }
}

/// An id that no session has or had.
pub(super) async fn free_id(runtime: &Inner, backend: &dyn Backend) -> Result<SessionId, Fault> {
    loop {
        let number =
            getrandom::u32().map_err(|error| Fault::internal(format!("no random numbers: {error}")))?;
        let id = SessionId(number);
        if runtime.registry.is_free(id) && backend.is_unused(id).await {
            return Ok(id);
        }
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    if is_session_name(name) {
        return Ok(());
    }
    let shown: String = name.chars().take(80).collect();
    Err(Fault::invalid(format!(
        "param `name`: {shown:?} cannot be a session's name; it takes 1 to 64 of letters, digits and . _ : -, \
         is not only dots and does not look like a session id"
    ))
    .with_details(serde_json::json!({ "field": "name" })))
}
