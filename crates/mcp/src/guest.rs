//! One MCP client as we know it: its own session, what ends with it, how far it has read.
//!
//! What a client did not ask to keep is bound to a connection that this guest holds: the
//! daemon ends it when the connection closes, whether the client left in good order, its
//! transport broke, or this process was killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use trl_client::{Client, Held, How};
use trl_protocol::exec::{ExecParams, ExecState, ListParams};
use trl_protocol::session::{BindParams, CreateParams, ResizeParams, SessionParams};
use trl_protocol::{Code, ExecId, Fault, SessionId, methods};

use crate::connection_bound::{BoundItem, ConnectionBound};
use crate::fault;
use crate::readings::Readings;
use crate::settings::Settings;

/// Rows and columns of terminals that nobody asked for in another size.
const DEFAULT_SIZE: (u16, u16) = (40, 120);

#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) client: Arc<Client>,
    pub(crate) settings: Arc<Settings>,
    /// What the client calls itself, in letters that may be in a name.
    name: Mutex<String>,
    /// The harness's id of its session, if it came with a call.
    harness: Mutex<Option<String>>,
    own: AsyncMutex<Option<Own>>,
    has_had_own: AtomicBool,
    pub(crate) connection_bound: ConnectionBound,
    /// Tells it apart where its harness does not.
    number: u32,
    pub(crate) readings: Readings,
    pub(crate) identity: AsyncMutex<Option<crate::letters::Identity>>,
    /// Rung when the client has become another session of an agent.
    pub(crate) identity_changed: tokio::sync::Notify,
    /// Where the inbox is read: messages that were handed out and not acknowledged belong to a
    /// connection, so it is always the same one.
    pub(crate) inbox: AsyncMutex<Option<Held>>,
}

/// The session of calls that name none.
#[derive(Debug, Clone)]
struct Own {
    id: SessionId,
    name: String,
    /// Something in it is to stay when the client has gone, and so it stays as well.
    kept: bool,
}

/// The session that a call means.
#[derive(Debug, Clone)]
pub(crate) struct CalledSession {
    pub(crate) id: SessionId,
    pub(crate) name: String,
    pub(crate) own: bool,
    /// What the model should know about it.
    pub(crate) note: Option<String>,
}

impl Guest {
    pub(crate) fn new(client: Arc<Client>, settings: Arc<Settings>) -> Guest {
        Guest {
            name: Mutex::new(settings.harness.clone().unwrap_or_else(|| "mcp".to_owned())),
            connection_bound: ConnectionBound::new(Arc::clone(&client)),
            client,
            settings,
            harness: Mutex::default(),
            own: AsyncMutex::default(),
            has_had_own: AtomicBool::new(false),
            number: getrandom::u32().unwrap_or_else(|_| std::process::id()),
            readings: Readings::default(),
            identity: AsyncMutex::default(),
            identity_changed: tokio::sync::Notify::new(),
            inbox: AsyncMutex::default(),
        }
    }

    pub(crate) fn call_it(&self, client_name: &str) {
        let name = self.settings.harness.clone().unwrap_or_else(|| short_name(client_name));
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    pub(crate) fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The harness's own, or one that holds as long as we do.
    pub(crate) fn harness_session_id(&self) -> String {
        self.known_harness_session().unwrap_or_else(|| format!("mcp-{:08x}", self.number))
    }

    /// The harness's own, if it told one.
    pub(crate) fn known_harness_session(&self) -> Option<String> {
        let learned = || self.harness.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.settings.harness_session_id.clone().or_else(learned)
    }

    /// Codex tells its session with each call instead of in the environment; it does not change.
    pub(crate) fn learn_harness(&self, meta: &Value) {
        let told = [&meta["x-codex-turn-metadata"]["session_id"], &meta["sessionId"], &meta["threadId"]];
        let fits = |id: &&str| (1..=256).contains(&id.len());
        let Some(id) = told.iter().find_map(|id| id.as_str()).filter(fits) else { return };
        let mut harness = self.harness.lock().unwrap_or_else(PoisonError::into_inner);
        harness.get_or_insert_with(|| id.to_owned());
    }

    /// The session of this name or id, made now if nothing has the name; without one the client's own.
    pub(crate) async fn place(&self, named: Option<&str>) -> Result<CalledSession, Fault> {
        match named.filter(|name| !name.is_empty()) {
            Some(name) => self.named(name).await,
            None => self.own().await,
        }
    }

    /// The same in another runtime: a session of the name that is given, else one of the client's own for that runtime.
    pub(crate) async fn place_in(&self, runtime: &str, named: Option<&str>) -> Result<CalledSession, Fault> {
        let own = || format!("{}-{:08x}", short_name(runtime), self.number);
        let (name, is_own) = match named.filter(|name| !name.is_empty()) {
            Some(name) => (name.to_owned(), false),
            None => (own(), true),
        };
        // What this machine has (directory, environment) is not there.
        let elsewhere = CreateParams::default();
        let base = if runtime == "local" { self.settings.new_session.clone() } else { elsewhere };
        let new = CreateParams { runtime: Some(runtime.to_owned()), ..base };
        let found = self.client.find_or_create(&name, &new).await.map_err(fault::of)?;
        if found.how == How::Created {
            if is_own {
                self.bind_session(found.id).await?;
            }
            self.resize(found.id, DEFAULT_SIZE).await?;
        } else if !is_own {
            self.client.check_runtime(&found, runtime).await.map_err(fault::of)?;
        }
        let note = match (&found.runtime, &found.runtime_reason) {
            (Some(there), Some(reason)) => Some(format!("session {name} was made in {there}: {reason}")),
            _ => None,
        };
        Ok(CalledSession { note, ..shared(found.id, found.name) })
    }

    /// The client's own session if it has one yet.
    pub(crate) async fn own_id(&self) -> Option<SessionId> {
        self.own.lock().await.as_ref().map(|own| own.id)
    }

    /// What a session is called: the client's own by its name.
    pub(crate) async fn name_of(&self, id: SessionId) -> String {
        match self.own.lock().await.as_ref() {
            Some(own) if own.id == id => own.name.clone(),
            _ => id.to_string(),
        }
    }

    async fn own(&self) -> Result<CalledSession, Fault> {
        let mut own = self.own.lock().await;
        let mut note = None;
        if let Some(there) = own.clone() {
            if there.kept || self.is_bound(there.id).await? {
                return Ok(there.place(None));
            }
            note = Some(format!(
                "session {} is over; this is a new one, without its variables and working directory",
                there.name
            ));
        }
        let made = self.make_own(!self.has_had_own.load(Ordering::Relaxed)).await?;
        self.has_had_own.store(true, Ordering::Relaxed);
        *own = Some(made.clone());
        Ok(made.place(note))
    }

    /// The session that calls without a name go to is over: the next call makes a new one.
    pub(crate) async fn forget_own(&self, id: SessionId) {
        let mut own = self.own.lock().await;
        if own.as_ref().is_some_and(|own| own.id == id) {
            *own = None;
        }
        self.connection_bound.forget(BoundItem::Session(id));
    }

    /// Only the first one continues where the harness session was: who ends a session wants a new one.
    async fn make_own(&self, is_first: bool) -> Result<Own, Fault> {
        let stem = self.name();
        let tail = getrandom::u32().unwrap_or(self.number) & 0xffff;
        let name = format!("{stem}:{tail:04x}");
        let params = CreateParams {
            name: Some(name.clone()),
            // It lives as long as its client, however long that thinks.
            idle_timeout_s: Some(0.0),
            restore_state: self.kept_state_name().filter(|_| is_first),
            keep_state: self.kept_state_name(),
            ..self.settings.new_session.clone()
        };
        let made = self.client.session_create(&params).await.map_err(fault::of)?;
        self.bind_session(made.session_id).await?;
        self.resize(made.session_id, DEFAULT_SIZE).await?;
        Ok(Own { id: made.session_id, name, kept: false })
    }

    /// A harness session that is resumed finds its shell as it was.
    fn kept_state_name(&self) -> Option<String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        let id = self.known_harness_session()?;
        (id.len() <= 128 && id.chars().all(fits)).then(|| format!("{}:{id}", self.name()))
    }

    async fn named(&self, named: &str) -> Result<CalledSession, Fault> {
        if let Some(own) = self.own.lock().await.as_ref()
            && (own.name == named || own.id.to_string() == named)
        {
            return Ok(own.place(None));
        }
        let found = self.client.find_or_create(named, &self.settings.new_session).await.map_err(fault::of)?;
        let note = match found.how {
            How::Created => {
                self.resize(found.id, DEFAULT_SIZE).await?;
                None
            }
            How::Restarted => Some(format!(
                "session {named} was lost; its commands ended, and it continues in a new shell with its state"
            )),
            How::Existing => None,
        };
        Ok(CalledSession { note, ..shared(found.id, found.name) })
    }

    /// The size that a command on a terminal is to find. A session of others keeps its own unless this call names one.
    pub(crate) async fn size_terminal(
        &self,
        place: &CalledSession,
        (rows, cols): (Option<u16>, Option<u16>),
    ) -> Result<(), Fault> {
        let asked = rows.is_some() || cols.is_some();
        if !asked && !place.own {
            return Ok(());
        }
        self.resize(place.id, (rows.unwrap_or(DEFAULT_SIZE.0), cols.unwrap_or(DEFAULT_SIZE.1))).await
    }

    async fn resize(&self, id: SessionId, (rows, cols): (u16, u16)) -> Result<(), Fault> {
        let params = ResizeParams { session_id: id.to_string(), rows, cols };
        self.client.call::<methods::SessionResize>(&params).await.map(drop).map_err(fault::of)
    }

    /// The command in the foreground of a session.
    pub(crate) async fn running(&self, id: SessionId) -> Option<ExecId> {
        let params = SessionParams { session_id: id.to_string() };
        self.client.session_info(&params).await.ok()?.running
    }

    /// The prompt of a command that waits for input.
    pub(crate) async fn asks_for_input(&self, exec: ExecId) -> Option<String> {
        let info = self.client.exec_info(&ExecParams { exec_id: exec.to_string() }).await.ok()?;
        info.waiting_for_input
    }

    /// Lets a session outlive the client, for the sake of a command that is about to start in it. What runs in it by
    /// now was not to be kept: it ends with the client all the same.
    pub(crate) async fn keep(&self, place: &CalledSession) -> Result<(), Fault> {
        let item = BoundItem::Session(place.id);
        if !self.connection_bound.has(item) {
            return Ok(());
        }
        if let Some(own) = self.own.lock().await.as_mut().filter(|own| own.id == place.id) {
            own.kept = true;
        }
        // From here on, commands that start are bound one by one; those that have started are bound now.
        self.connection_bound.forget(item);
        let running = ListParams { session_id: Some(place.id.to_string()), own: false };
        for exec in self.client.exec_list(&running).await.map_err(fault::of)?.execs {
            if exec.state != ExecState::Finished {
                self.bind_exec(exec.exec_id).await;
            }
        }
        let params = BindParams { session_id: place.id.to_string(), bound: false };
        self.client.call::<methods::SessionBind>(&params).await.map(drop).map_err(fault::of)
    }

    /// Whether a session ends with the client, and everything in it.
    pub(crate) fn ends_with_client(&self, id: SessionId) -> bool {
        self.connection_bound.has(BoundItem::Session(id))
    }

    /// A command of a session that does not end with the client ends with it all the same.
    pub(crate) async fn bind_exec(&self, exec_id: ExecId) {
        if let Err(fault) = self.connection_bound.bind(BoundItem::Exec(exec_id)).await {
            // It may be over already; then there is nothing to bind.
            tracing::debug!(%exec_id, code = %fault.code, "a command is not bound");
        }
    }

    /// Nothing has to end with the client any more.
    pub(crate) fn forget_exec(&self, exec_id: ExecId) {
        self.connection_bound.forget(BoundItem::Exec(exec_id));
    }

    /// Whether the client's own session is still there, and bound to its connection also after a daemon was replaced.
    async fn is_bound(&self, id: SessionId) -> Result<bool, Fault> {
        let item = BoundItem::Session(id);
        if self.connection_bound.holds(item) {
            return Ok(true);
        }
        match self.bind_session(id).await {
            Ok(()) => Ok(true),
            Err(fault) if is_over(&fault) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    async fn bind_session(&self, id: SessionId) -> Result<(), Fault> {
        self.connection_bound.bind(BoundItem::Session(id)).await
    }
}

impl Own {
    fn place(&self, note: Option<String>) -> CalledSession {
        CalledSession { id: self.id, name: self.name.clone(), own: true, note }
    }
}

fn shared(id: SessionId, name: Option<String>) -> CalledSession {
    CalledSession { id, name: name.unwrap_or_else(|| id.to_string()), own: false, note: None }
}

pub(crate) fn is_over(fault: &Fault) -> bool {
    matches!(fault.code, Code::SessionNotFound | Code::SessionTerminated)
}

/// A client's name as the beginning of a session's name and of a mail label.
fn short_name(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = name.chars().map(fits).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    let short: String = words.join("-").chars().take(24).collect();
    match short.trim_end_matches('-') {
        "" => "mcp".to_owned(),
        // Labels are `claude:1`, `codex:1`: what people call the program, not its client.
        known if known.starts_with("claude") => "claude".to_owned(),
        known if known.starts_with("codex") => "codex".to_owned(),
        known if known.starts_with("gemini") => "gemini".to_owned(),
        short => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_client_gets_a_name_that_sessions_can_have() {
        let cases = [
            ("claude-code", "claude"),
            ("codex-mcp-client", "codex"),
            ("gemini-cli-mcp-client", "gemini"),
            ("Visual Studio Code", "visual-studio-code"),
            ("  ", "mcp"),
            ("日本", "mcp"),
            ("a/b::c", "a-b-c"),
            ("an-endless-name-of-a-client-that-goes-on", "an-endless-name-of-a-cli"),
        ];
        for (name, expected) in cases {
            assert_eq!(short_name(name), expected);
            assert!(trl_protocol::ids::is_session_name(&format!("{expected}:00ff")));
        }
    }
}
