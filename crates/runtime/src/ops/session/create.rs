//! `session.create`: a place in the registry, then a host, then a living session.
//!
//! A session whose client is gone before it could hear of it is ended again: nobody
//! would know that it is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use trl_protocol::ids::is_session_name;
use trl_protocol::session::{CreateParams, Created, SessionInfo, SessionLimits, SessionState};
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Code, Fault, SessionId};

use super::destroy;
use crate::birth;
use crate::caller::Caller;
use crate::registry::Reservation;
use crate::runtime::Inner;
use crate::session::{Places, Session};
use crate::shells::{self, Surroundings};
use crate::{environment, memory, seconds};

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: CreateParams,
    caller: &Caller,
) -> Result<Created, Fault> {
    memory::check(runtime.config.min_free_memory)?;
    let plan = Plan::of(runtime, params)?;
    let reservation = reserve(runtime, plan.name.as_deref())?;
    // In a task of its own: a client that goes away must not leave half a session.
    let making = tokio::spawn(make(Arc::clone(runtime), plan, reservation));
    let made = making.await.unwrap_or_else(|error| Err(Fault::internal(format!("session.create: {error}"))));
    runtime.settle();
    let session = made?;
    if caller.is_gone() {
        tracing::info!(session = %session.id, "nobody heard of this session: it is ended");
        destroy::end(&session, true).await?;
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
    })
}

/// What was asked for, resolved; only the id is missing.
#[derive(Debug)]
struct Plan {
    name: Option<String>,
    shell: shells::Shell,
    env: BTreeMap<String, String>,
    working_dir: String,
    timeout_s: f64,
    idle_timeout_s: f64,
    tty: bool,
    rc: bool,
    limits: SessionLimits,
}

impl Plan {
    fn of(runtime: &Inner, params: CreateParams) -> Result<Plan, Fault> {
        let config = &runtime.config;
        if let Some(name) = &params.name {
            check_name(name)?;
        }
        if params.isolation.as_ref().is_some_and(|asked| !asked.is_null()) {
            return Err(Fault::new(
                Code::IsolationUnavailable,
                "param `isolation`: this daemon cannot isolate sessions; system.info tells what it can",
            ));
        }
        let around = Surroundings {
            path: config.env.get("PATH").map_or("", String::as_str),
            preferred: config.env.get("SHELL").map(String::as_str),
        };
        let env = params.env.unwrap_or_default();
        environment::check(&env)?;
        let limits = params.limits.unwrap_or_default();
        let journal_bytes = Some(limits.journal_bytes.unwrap_or(config.journal_bytes));
        Ok(Plan {
            shell: shells::resolve(params.shell.as_deref(), around)?,
            working_dir: working_dir(runtime, params.working_dir)?,
            timeout_s: seconds::checked("timeout_s", params.timeout_s.unwrap_or(config.default_timeout_s))?,
            idle_timeout_s: seconds::checked(
                "idle_timeout_s",
                params.idle_timeout_s.unwrap_or(config.max_idle_s),
            )?,
            tty: params.tty.unwrap_or(false),
            rc: params.rc.unwrap_or(false),
            limits: SessionLimits { journal_bytes, ..limits },
            name: params.name,
            env,
        })
    }

    fn into_spec(self, runtime: &Inner, id: SessionId, places: &Places) -> Result<SessionSpec, Fault> {
        let env = environment::of_session(&runtime.config, &self.env, self.tty, id, self.name.as_deref());
        Ok(SessionSpec {
            session_id: id,
            name: self.name,
            shell: self.shell.told,
            shell_path: as_text(&self.shell.path)?,
            dialect: self.shell.dialect,
            env,
            env_keys: self.env.into_keys().collect(),
            working_dir: self.working_dir,
            timeout_s: self.timeout_s,
            idle_timeout_s: self.idle_timeout_s,
            ttl_s: runtime.config.session_ttl_s,
            tty: self.tty,
            rc: self.rc,
            limits: self.limits,
            state_dir: as_text(&places.state_dir)?,
            socket: as_text(&places.socket)?,
            resume: false,
            open_files: runtime.config.open_files,
        })
    }

    /// What `session.list` tells until the host answers.
    fn info(&self, id: SessionId) -> SessionInfo {
        let now = format!("{:.3}", jiff::Timestamp::now());
        SessionInfo {
            session_id: id,
            name: self.name.clone(),
            shell: self.shell.told.clone(),
            working_dir: self.working_dir.clone(),
            state: SessionState::Creating,
            env_keys: self.env.keys().cloned().collect(),
            created_at: now.clone(),
            last_activity: now,
            command_count: 0,
            timeout_s: self.timeout_s,
            idle_timeout_s: self.idle_timeout_s,
            pid: None,
            host_pid: 0,
            restarts: 0,
            tty: self.tty,
            stdout_bytes: 0,
            stderr_bytes: 0,
            running: None,
            queued: 0,
            unresponsive: false,
        }
    }
}

async fn make(runtime: Arc<Inner>, plan: Plan, reservation: Reservation) -> Result<Arc<Session>, Fault> {
    let id = reservation.id;
    let places = runtime.places(id);
    reservation.describe(plan.info(id));
    let spec = plan.into_spec(&runtime, id, &places)?;
    // Somebody may have removed the directories above meanwhile.
    for dir in [Some(&*places.state_dir), places.socket.parent()].into_iter().flatten() {
        trl_sys::private::create_dir(dir).map_err(|error| {
            let what = format!("the directory {} is gone and cannot be made again", dir.display());
            let fault = Fault::refused_for_now(what, &error);
            let remedy = "make it, or what it lies in, or start the daemon with another (TRL_HOME)";
            Fault { message: format!("{}; {remedy}", fault.message).into(), ..fault }
        })?;
    }
    match birth::of_session(&runtime, spec, reservation).await {
        Ok(session) => {
            tracing::info!(session = %id, host_pid = session.process.pid, "a session was created");
            Ok(session)
        }
        Err(fault) => {
            places.remove_all();
            Err(fault)
        }
    }
}

fn reserve(runtime: &Arc<Inner>, name: Option<&str>) -> Result<Reservation, Fault> {
    loop {
        let number =
            getrandom::u32().map_err(|error| Fault::internal(format!("no random numbers: {error}")))?;
        let id = SessionId(number);
        // A directory of that name may be all that is left of a session of another daemon.
        if runtime.registry.is_free(id) && !runtime.places(id).state_dir.exists() {
            return runtime.registry.reserve(name, id);
        }
    }
}

fn check_name(name: &str) -> Result<(), Fault> {
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

fn working_dir(runtime: &Inner, asked: Option<String>) -> Result<String, Fault> {
    let config = &runtime.config;
    let Some(asked) = asked else {
        let begin = [&config.working_dir, &config.home_dir].into_iter().find(|dir| dir.is_dir());
        return begin.map_or_else(|| Ok("/".to_owned()), |dir| as_text(dir));
    };
    let path = Path::new(&asked);
    let problem = if asked.contains('\0') {
        "has a NUL byte".to_owned()
    } else if !path.is_absolute() {
        "is not an absolute path".to_owned()
    } else {
        match path.metadata() {
            Ok(meta) if meta.is_dir() => return Ok(asked),
            Ok(_) => "is no directory".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    Err(Fault::invalid(format!("param `working_dir`: {asked:?}: {problem}"))
        .with_details(serde_json::json!({ "field": "working_dir" })))
}

fn as_text(path: &Path) -> Result<String, Fault> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Fault::internal(format!("the path {} is no UTF-8", path.display())))
}
