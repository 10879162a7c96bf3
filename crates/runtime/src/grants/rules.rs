//! What a request under a grant may do.
//!
//! Only sessions that were created under the same grant exist for its holder. New ones have at least the
//! granted isolation and at most the granted limits. Everything else about the daemon (mail, agents, other
//! runtimes, grants, its end) is out of reach. The match has no catch-all: a new method does not compile
//! until somebody decides what a grant allows.

use trl_confine::plan::DEFAULT_PRIVATE_BYTES;
use trl_protocol::isolation::{Isolation, Net, Profile, Size};
use trl_protocol::session::{CreateParams, SessionLimits};
use trl_protocol::{Code, ExecId, Fault, Request, SessionId, limits};

use super::{Grant, GrantKey};
use crate::caller::Caller;
use crate::registry::Found;
use crate::runtime::Inner;

/// Where sessions work that were given no directory: private to each.
const PRIVATE_DIR: &str = "/tmp";

/// What a session may inherit of the daemon's environment. The rest may hold secrets of its user.
pub(crate) fn is_inherited(name: &str) -> bool {
    matches!(name, "PATH" | "HOME" | "USER" | "LOGNAME" | "SHELL" | "LANG" | "LANGUAGE" | "TZ")
        || name.starts_with("LC_")
}

/// The request as it is carried out, or why it is not.
#[deny(clippy::wildcard_enum_match_arm)]
pub(crate) fn admit(runtime: &Inner, key: &GrantKey, mut request: Request) -> Result<Request, Fault> {
    let grant = runtime.grants.active(key)?;
    let view = View { runtime, key, grant: &grant };
    match &mut request {
        Request::SessionCreate(params) => {
            let asked = std::mem::take(params);
            *params = create_params(&grant, asked, runtime.config.journal_bytes)?;
        }
        Request::SessionInfo(params) => view.session(&mut params.session_id)?,
        Request::SessionDestroy(params) => view.session(&mut params.session_id)?,
        Request::SessionRestart(params) => view.session(&mut params.session_id)?,
        Request::SessionFork(params) => view.session(&mut params.session_id)?,
        Request::SessionRename(params) => view.session(&mut params.session_id)?,
        Request::SessionBind(params) => view.session(&mut params.session_id)?,
        Request::SessionAttach(params) => view.session(&mut params.session_id)?,
        Request::SessionInput(params) => view.session(&mut params.session_id)?,
        Request::SessionResize(params) => view.session(&mut params.session_id)?,
        Request::ExecRun(params) | Request::ExecStream(params) | Request::ExecStart(params) => {
            view.session_if_any(params.session_id.as_mut())?;
        }
        Request::ExecAttach(params) => view.exec(&params.exec_id)?,
        Request::ExecOutput(params) => view.exec(&params.exec_id)?,
        Request::ExecWrite(params) => view.exec(&params.exec_id)?,
        Request::ExecResize(params) => view.exec(&params.exec_id)?,
        Request::ExecScreen(params) => {
            view.session_if_any(params.session_id.as_mut())?;
            params.exec_id.as_ref().map_or(Ok(()), |exec| view.exec(exec))?;
        }
        Request::ExecCancel(params) => {
            view.session_if_any(params.session_id.as_mut())?;
            params.exec_id.as_ref().map_or(Ok(()), |exec| view.exec(exec))?;
        }
        Request::ExecBind(params) => view.exec(&params.exec_id)?,
        Request::ExecWait(params) => view.exec(&params.exec_id)?,
        Request::ExecList(params) => view.session_if_any(params.session_id.as_mut())?,
        Request::ExecInfo(params) => view.exec(&params.exec_id)?,
        Request::FileRead(params) => view.session(&mut params.session_id)?,
        Request::FileWrite(params) => view.session(&mut params.session_id)?,
        Request::FileEdit(params) => view.session(&mut params.session_id)?,
        Request::FileList(params) => view.session(&mut params.session_id)?,
        Request::FileStat(params) => view.session(&mut params.session_id)?,
        Request::FileMove(params) => view.session(&mut params.session_id)?,
        Request::FileRemove(params) => view.session(&mut params.session_id)?,
        Request::FileMakeDir(params) => view.session(&mut params.session_id)?,
        // What these tell is reduced to the grant's own where it is put together.
        Request::SessionList(_) | Request::SystemRuntimes(_) | Request::EventsSubscribe(_) => {}
        Request::SystemPing(_) | Request::SystemInfo(_) => {}
        Request::SystemStats(_)
        | Request::SystemShutdown(_)
        | Request::RuntimeGrant(_)
        | Request::RuntimeRevoke(_)
        | Request::RuntimeGrants(_)
        | Request::MailSubscribe(_)
        | Request::Mail(_) => {
            let method = request.info().name;
            return Err(
                grant.refuse(&format!("does not allow {method}, only sessions and what runs in them"))
            );
        }
    }
    Ok(request)
}

/// Names are shared by all sessions; whose a taken one is, is nobody's business.
pub(crate) fn conceal(fault: Fault, caller: &Caller) -> Fault {
    match (&caller.grant, fault.code) {
        (Some(_), Code::NameTaken) => {
            Fault::new(Code::NameTaken, "a session has that name already; choose another")
        }
        _ => fault,
    }
}

/// A grant's own part of the daemon.
struct View<'a> {
    runtime: &'a Inner,
    key: &'a GrantKey,
    grant: &'a Grant,
}

impl View<'_> {
    /// Puts the id in the place of a name, which could be somebody else's by the time it is used.
    fn session(&self, named: &mut String) -> Result<(), Fault> {
        let id = match self.runtime.registry.find(named) {
            Ok(Found::Living(session)) => Some(session.id),
            Ok(Found::Creating(id, _)) => Some(id),
            Ok(Found::Past { info, .. }) => Some(info.session_id),
            Ok(Found::Remote(_) | Found::RemotePast(..)) | Err(_) => None,
        };
        match id.filter(|id| self.owns(*id)) {
            Some(id) => {
                *named = id.to_string();
                Ok(())
            }
            None => Err(self.not_found(Code::SessionNotFound, "session", named)),
        }
    }

    fn session_if_any(&self, named: Option<&mut String>) -> Result<(), Fault> {
        named.map_or(Ok(()), |named| self.session(named))
    }

    fn exec(&self, exec_id: &str) -> Result<(), Fault> {
        let session = exec_id.parse::<ExecId>().ok().map(|exec| exec.session);
        match session.filter(|id| self.owns(*id)) {
            Some(_) => Ok(()),
            None => Err(self.not_found(Code::ExecNotFound, "command", exec_id)),
        }
    }

    fn owns(&self, id: SessionId) -> bool {
        self.runtime.grants.owns(self.key, id)
    }

    /// The same for what belongs to others and for what does not exist.
    fn not_found(&self, code: Code, what: &str, named: &str) -> Fault {
        let shown: String = named.chars().take(80).collect();
        Fault::new(code, format!("there is no {what} {shown:?} under the grant {}", self.grant.id))
    }
}

/// The params of a session under a grant, also of one for a single command.
pub(crate) fn create_params(
    grant: &Grant,
    asked: CreateParams,
    journal_bytes: u64,
) -> Result<CreateParams, Fault> {
    if let Some(other) = asked.runtime.as_deref().filter(|name| *name != "local") {
        return Err(
            grant.refuse(&format!("is for this machine only; the request asks for the runtime {other:?}"))
        );
    }
    Ok(CreateParams {
        runtime: Some("local".to_owned()),
        isolation: Some(isolation(grant, asked.isolation)?),
        limits: Some(session_limits(grant, asked.limits.unwrap_or_default(), journal_bytes)?),
        working_dir: working_dir(grant, asked.working_dir)?,
        // States are kept for the daemon's own user, by names that anybody could guess.
        keep_state: None,
        restore_state: None,
        ..asked
    })
}

fn strictness(profile: Profile) -> u8 {
    match profile {
        Profile::None => 0,
        Profile::Workspace => 1,
        Profile::Strict => 2,
    }
}

/// Whether sessions under this grant may have the isolation of this name.
pub(crate) fn is_enough(grant: &Grant, name: &str) -> bool {
    let known = [Profile::None, Profile::Workspace, Profile::Strict];
    let found = known.into_iter().find(|profile| profile.name() == name);
    found.is_some_and(|profile| strictness(profile) >= strictness(grant.profile))
}

fn isolation(grant: &Grant, asked: Option<Isolation>) -> Result<Isolation, Fault> {
    let Some(asked) = asked else { return Ok(Isolation::of(grant.profile)) };
    if grant.profile == Profile::None {
        return Ok(asked);
    }
    let Isolation { profile, read, write, hide: _, net, root, devices: _, best_effort } = &asked;
    let granted = grant.profile.name();
    let refuse = |what: &str| {
        Err(grant.refuse(&format!("demands the isolation {granted:?} or more; the request asks for {what}")))
    };
    if strictness(*profile) < strictness(grant.profile) {
        return refuse(&format!("{:?}", profile.name()));
    }
    match () {
        () if !read.is_empty() => refuse("more paths to read (`read`)"),
        () if !write.is_empty() => refuse("more paths to write (`write`)"),
        () if *net != Net::None => refuse("a network (`net`)"),
        () if root.is_some() => refuse("another root directory (`root`)"),
        () if *best_effort => refuse("less where this machine cannot enforce it (`best_effort`)"),
        () => Ok(asked),
    }
}

/// An isolated session may write its directory, so the grant decides which one that is.
fn working_dir(grant: &Grant, asked: Option<String>) -> Result<Option<String>, Fault> {
    if grant.profile == Profile::None {
        return Ok(asked.or_else(|| grant.working_dir.clone()));
    }
    let granted = grant.working_dir.as_deref().unwrap_or(PRIVATE_DIR);
    match asked.filter(|asked| asked.trim_end_matches('/') != granted.trim_end_matches('/')) {
        None => Ok(Some(granted.to_owned())),
        Some(other) => {
            Err(grant.refuse(&format!("is for the directory {granted:?}; the request asks for {other:?}")))
        }
    }
}

fn session_limits(grant: &Grant, asked: SessionLimits, journal_bytes: u64) -> Result<SessionLimits, Fault> {
    let granted = &grant.limits;
    let most = Most { grant };
    // What a session gets without asking is the most that it may ask for, unless the grant says otherwise.
    most.of("journal_bytes", granted.journal_bytes.or(Some(journal_bytes)), asked.journal_bytes)?;
    most.of("max_queue", granted.max_queue.or(Some(limits::MAX_QUEUE)), asked.max_queue)?;
    most.of("disk", granted.disk.or(Some(Size(DEFAULT_PRIVATE_BYTES))), asked.disk)?;
    Ok(SessionLimits {
        journal_bytes: asked.journal_bytes.or(granted.journal_bytes),
        max_queue: asked.max_queue.or(granted.max_queue),
        disk: asked.disk.or(granted.disk),
        max_commands: most.of("max_commands", granted.max_commands, asked.max_commands)?,
        memory: most.of("memory", granted.memory, asked.memory)?,
        pids: most.of("pids", granted.pids, asked.pids)?,
        cpu: most.of("cpu", granted.cpu, asked.cpu)?,
        open_files: most.of("open_files", granted.open_files, asked.open_files)?,
        file_size: most.of("file_size", granted.file_size, asked.file_size)?,
        cpu_time_s: most.of("cpu_time_s", granted.cpu_time_s, asked.cpu_time_s)?,
    })
}

struct Most<'a> {
    grant: &'a Grant,
}

impl Most<'_> {
    fn of<T: PartialOrd + Copy + Shown>(
        &self,
        field: &str,
        granted: Option<T>,
        asked: Option<T>,
    ) -> Result<Option<T>, Fault> {
        match (granted, asked) {
            (Some(most), Some(asked)) if asked <= most => Ok(Some(asked)),
            (Some(most), Some(asked)) => Err(self.grant.refuse(&format!(
                "allows a `{field}` of {}; the request asks for {}",
                most.shown(),
                asked.shown()
            ))),
            (granted, asked) => Ok(asked.or(granted)),
        }
    }
}

trait Shown {
    fn shown(&self) -> String;
}

impl Shown for Size {
    fn shown(&self) -> String {
        format!("{} bytes", self.0)
    }
}

impl Shown for u64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for usize {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for f64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}
