//! A request for a session of another daemon, done over there.
//!
//! What may be repeated is repeated when the connection breaks, commands under their `run_id`; streams go on from
//! the offsets that were told. What binds something to a client's connection is done here: the client is ours.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_client::{ExecStream, Step, ViewEvent};
use trl_protocol::exec::{self, Stream, StreamReply};
use trl_protocol::session::{
    AttachParams, Bound, Destroyed, Detached, Renamed, SessionInfo, SessionParams, SessionState,
};
use trl_protocol::{Code, Event, ExecId, Fault, Method, Reply, Request, SessionId, methods as m};

use super::{RemoteSession, create};
use crate::caller::{Caller, EventSink, Gone};
use crate::connection_bound::BoundItem;
use crate::ops::exec::relay::Relay;
use crate::ops::exec::run::{details, failure, nobody_waits};
use crate::ops::exec::write::repetition;
use crate::ops::session::create::check_name;
use crate::runtime::Inner;

/// What a request is about.
enum Subject<'a> {
    Session(&'a str),
    Exec(&'a str),
    Other,
}

// Without a catch-all: a new method does not compile until somebody says whether it is about a session.
#[deny(clippy::wildcard_enum_match_arm)]
fn subject(request: &Request) -> Subject<'_> {
    use Subject::{Exec, Other, Session};
    match request {
        Request::SessionInfo(params) => Session(&params.session_id),
        Request::SessionDestroy(params) => Session(&params.session_id),
        Request::SessionRestart(params) => Session(&params.session_id),
        Request::SessionRename(params) => Session(&params.session_id),
        Request::SessionFork(params) => Session(&params.session_id),
        Request::SessionBind(params) => Session(&params.session_id),
        Request::SessionAttach(params) => Session(&params.session_id),
        Request::SessionInput(params) => Session(&params.session_id),
        Request::SessionResize(params) => Session(&params.session_id),
        Request::ExecRun(params) | Request::ExecStream(params) | Request::ExecStart(params) => {
            params.session_id.as_deref().map_or(Other, Session)
        }
        Request::ExecAttach(params) => Exec(&params.exec_id),
        Request::ExecOutput(params) => Exec(&params.exec_id),
        Request::ExecWrite(params) => Exec(&params.exec_id),
        Request::ExecResize(params) => Exec(&params.exec_id),
        Request::ExecBind(params) => Exec(&params.exec_id),
        Request::ExecInfo(params) => Exec(&params.exec_id),
        Request::ExecWait(params) => Exec(&params.exec_id),
        // One of the two; both or neither is refused here.
        Request::ExecScreen(params) => of_either(&params.session_id, &params.exec_id),
        Request::ExecCancel(params) => of_either(&params.session_id, &params.exec_id),
        Request::ExecList(params) => params.session_id.as_deref().map_or(Other, Session),
        Request::FileRead(params) => Session(&params.session_id),
        Request::FileWrite(params) => Session(&params.session_id),
        Request::FileEdit(params) => Session(&params.session_id),
        Request::FileList(params) => Session(&params.session_id),
        Request::FileStat(params) => Session(&params.session_id),
        Request::FileMove(params) => Session(&params.session_id),
        Request::FileRemove(params) => Session(&params.session_id),
        Request::FileMakeDir(params) => Session(&params.session_id),
        Request::SessionCreate(_)
        | Request::SessionList(_)
        | Request::SystemPing(_)
        | Request::SystemStats(_)
        | Request::SystemInfo(_)
        | Request::SystemRuntimes(_)
        | Request::SystemShutdown(_)
        | Request::EventsSubscribe(_)
        | Request::MailSubscribe(_)
        | Request::RuntimeGrant(_)
        | Request::RuntimeRevoke(_)
        | Request::RuntimeGrants(_)
        | Request::Mail(_) => Other,
    }
}

fn of_either<'a>(session: &'a Option<String>, exec: &'a Option<String>) -> Subject<'a> {
    match (session, exec) {
        (Some(session), None) => Subject::Session(session),
        (None, Some(exec)) => Subject::Exec(exec),
        (None, None) | (Some(_), Some(_)) => Subject::Other,
    }
}

/// The session of another daemon that a request is about.
pub(crate) fn session_of(runtime: &Inner, request: &Request) -> Option<Arc<RemoteSession>> {
    match subject(request) {
        Subject::Session(named) => session(runtime, named),
        Subject::Exec(exec_id) => session(runtime, &exec_id.parse::<ExecId>().ok()?.session.to_string()),
        Subject::Other => None,
    }
}

/// The session of another daemon that an id or a name stands for.
pub(crate) fn session(runtime: &Inner, named: &str) -> Option<Arc<RemoteSession>> {
    runtime.registry.remote(named).or_else(|| runtime.remotes.foreign(named))
}

/// Does it over there.
pub(crate) async fn forward(
    runtime: &Arc<Inner>,
    session: &Arc<RemoteSession>,
    request: Request,
    caller: &Caller,
    to: &mut dyn EventSink,
) -> Result<Reply, Fault> {
    let forwarded = Forwarded { runtime, session, caller };
    let done = forwarded.perform(request, to).await;
    if let Err(fault) = &done
        && is_over(fault)
    {
        runtime.remote_over(session, "its daemon has ended it");
    }
    done
}

/// Whether the session is gone for good. One that is lost still has its output, and can be restarted.
fn is_over(fault: &Fault) -> bool {
    let state = fault.details.as_ref().and_then(|details| details.get("state"));
    match fault.code {
        Code::SessionNotFound => true,
        Code::SessionTerminated => state.is_some_and(|state| state == "terminated"),
        _ => false,
    }
}

/// Ends a command over there whose client is gone; `None` if it is not over there.
pub(crate) async fn cancel(runtime: &Inner, exec_id: ExecId) -> Option<Result<(), Fault>> {
    let session = session(runtime, &exec_id.session.to_string())?;
    let params = exec::CancelParams { session_id: None, exec_id: Some(exec_id.to_string()), signal: None };
    Some(session.daemon.call::<m::ExecCancel>(&params).await.map(drop))
}

/// One request for a session of another daemon.
struct Forwarded<'a> {
    runtime: &'a Arc<Inner>,
    session: &'a Arc<RemoteSession>,
    caller: &'a Caller,
}

/// Params with the session's id over there in place of its name here.
macro_rules! there {
    ($self:ident, $params:ident) => {{
        let mut params = $params;
        params.session_id = $self.id();
        params
    }};
}

impl Forwarded<'_> {
    async fn perform(&self, request: Request, to: &mut dyn EventSink) -> Result<Reply, Fault> {
        match request {
            Request::SessionInfo(_) => self.info().await.map(m::SessionInfo::wrap),
            Request::SessionDestroy(params) => self.destroy(params.force).await.map(m::SessionDestroy::wrap),
            Request::SessionRename(params) if self.session.is_foreign => {
                self.ask::<m::SessionRename>(there!(self, params)).await
            }
            Request::SessionRename(params) => self.rename(params.name).map(m::SessionRename::wrap),
            Request::SessionFork(params) => {
                let forked = create::fork(self.runtime, self.session, params.name, self.caller).await;
                forked.map(m::SessionFork::wrap)
            }
            Request::SessionBind(params) => self.bind(params.bound).map(m::SessionBind::wrap),
            Request::ExecBind(params) => self.bind_exec(&params).map(m::ExecBind::wrap),
            Request::SessionAttach(params) => {
                self.view(there!(self, params), to).await.map(m::SessionAttach::wrap)
            }
            Request::SessionRestart(params) => self.ask::<m::SessionRestart>(there!(self, params)).await,
            Request::SessionInput(params) => self.ask::<m::SessionInput>(there!(self, params)).await,
            Request::SessionResize(params) => self.ask::<m::SessionResize>(there!(self, params)).await,
            Request::ExecRun(params) => self.count(self.ask::<m::ExecRun>(self.command(params)).await),
            Request::ExecStart(params) => self.count(self.ask::<m::ExecStart>(self.command(params)).await),
            Request::ExecStream(params) => {
                self.count(self.stream(self.command(params), to).await.map(m::ExecStream::wrap))
            }
            Request::ExecAttach(params) => self.attach(&params, to).await.map(m::ExecAttach::wrap),
            Request::ExecOutput(params) => self.ask::<m::ExecOutput>(params).await,
            Request::ExecWrite(params) => self.ask::<m::ExecWrite>(self.write(params)).await,
            Request::ExecResize(params) => self.ask::<m::ExecResize>(params).await,
            Request::ExecInfo(params) => self.ask::<m::ExecInfo>(params).await,
            Request::ExecWait(params) => tokio::select! {
                waited = self.ask::<m::ExecWait>(params) => waited,
                () = self.caller.gone() => Err(nobody_waits()),
            },
            Request::ExecScreen(params) => {
                let session_id = params.session_id.map(|_| self.id());
                self.ask::<m::ExecScreen>(exec::ScreenParams { session_id, ..params }).await
            }
            Request::ExecCancel(params) => {
                let session_id = params.session_id.map(|_| self.id());
                self.ask::<m::ExecCancel>(exec::CancelParams { session_id, ..params }).await
            }
            Request::ExecList(_) => {
                self.ask::<m::ExecList>(exec::ListParams { session_id: Some(self.id()), own: false }).await
            }
            Request::FileRead(params) => self.ask::<m::FileRead>(there!(self, params)).await,
            Request::FileWrite(params) => self.ask::<m::FileWrite>(there!(self, params)).await,
            Request::FileEdit(params) => self.ask::<m::FileEdit>(there!(self, params)).await,
            Request::FileList(params) => self.ask::<m::FileList>(there!(self, params)).await,
            Request::FileStat(params) => self.ask::<m::FileStat>(there!(self, params)).await,
            Request::FileMove(params) => self.ask::<m::FileMove>(there!(self, params)).await,
            Request::FileRemove(params) => self.ask::<m::FileRemove>(there!(self, params)).await,
            Request::FileMakeDir(params) => self.ask::<m::FileMakeDir>(there!(self, params)).await,
            other => Err(Fault::internal(format!("{} is not about a session", other.info().name))),
        }
    }

    fn id(&self) -> String {
        self.session.id.to_string()
    }

    async fn ask<M: Method<AnyReply = Reply>>(&self, params: M::Params) -> Result<Reply, Fault> {
        self.session.daemon.call::<M>(&params).await.map(M::wrap)
    }

    /// One more command was run.
    fn count(&self, ran: Result<Reply, Fault>) -> Result<Reply, Fault> {
        if ran.is_ok() {
            self.runtime.commands.fetch_add(1, Ordering::Relaxed);
        }
        ran
    }

    fn command(&self, params: exec::RunParams) -> exec::RunParams {
        exec::RunParams { session_id: Some(self.id()), ..params }
    }

    /// A client that repeats its request is recognised over there as it would be here.
    fn write(&self, params: exec::WriteParams) -> exec::WriteParams {
        let repeated = || {
            let request_id = self.caller.request_id.as_deref()?;
            Some(repetition(request_id, params.data.as_bytes(), params.eof))
        };
        let write_id = params.write_id.clone().or_else(repeated);
        exec::WriteParams { write_id, ..params }
    }

    async fn info(&self) -> Result<SessionInfo, Fault> {
        let params = SessionParams { session_id: self.id() };
        match self.session.daemon.call::<m::SessionInfo>(&params).await {
            Ok(info) => Ok(self.session.learn(info)),
            // What was last heard of it, marked as such.
            Err(fault) if fault.code == Code::RuntimeUnavailable => Ok(self.session.info()),
            Err(fault) => Err(fault),
        }
    }

    async fn destroy(&self, force: bool) -> Result<Destroyed, Fault> {
        if let Err(fault) = create::end(self.runtime, self.session, force).await {
            if force && fault.code == Code::RuntimeUnavailable {
                // Nobody could get rid of the sessions of a daemon that is gone for good otherwise.
                self.runtime.remote_over(self.session, "given up, since its daemon cannot be reached");
                let message =
                    format!("{}; the session is no longer listed here, but may go on there", fault.message);
                return Err(Fault { message: message.into(), ..fault });
            }
            return Err(fault);
        }
        Ok(Destroyed { session_id: self.session.id, state: SessionState::Terminated })
    }

    fn rename(&self, name: String) -> Result<Renamed, Fault> {
        check_name(&name)?;
        self.runtime.registry.rename_remote(&name, self.session)?;
        self.session.rename(name.clone());
        self.runtime.remote_renamed(self.session);
        Ok(Renamed { session_id: self.session.id, name })
    }

    fn bind(&self, bound: bool) -> Result<Bound, Fault> {
        let session_id: SessionId = self.session.id;
        self.runtime.bind(BoundItem::Session(session_id), bound, self.caller)?;
        Ok(Bound { session_id, bound })
    }

    fn bind_exec(&self, params: &exec::BindParams) -> Result<exec::Bound, Fault> {
        let exec_id: ExecId =
            params.exec_id.parse().map_err(|_| Fault::invalid("param `exec_id`: not an id"))?;
        self.runtime.bind(BoundItem::Exec(exec_id), params.bound, self.caller)?;
        Ok(exec::Bound { exec_id, bound: params.bound })
    }

    async fn stream(&self, params: exec::RunParams, to: &mut dyn EventSink) -> Result<StreamReply, Fault> {
        let (check, encoding) = (params.check, params.encoding);
        // A failure is told with what this client has heard.
        let params = exec::RunParams { check: false, ..params };
        let daemon = &self.session.daemon;
        let stream = daemon.client().stream(&params).await.map_err(|error| daemon.fault(error))?;
        let mut reply = self.relay(stream, Relay::new(self.session.id, to, encoding)).await?;
        if reply.still_running && reply.outcome.working_dir.is_empty() {
            // The soft timeout passed while the other daemon was out of reach.
            reply.outcome.working_dir = self.session.info().working_dir;
        }
        match failure(&reply.outcome).filter(|_| check && !reply.still_running) {
            Some(fault) => Err(fault.with_details(details(&reply))),
            None => Ok(reply),
        }
    }

    async fn attach(
        &self,
        params: &exec::AttachParams,
        to: &mut dyn EventSink,
    ) -> Result<StreamReply, Fault> {
        let daemon = &self.session.daemon;
        let stream = daemon.client().attach(params).await.map_err(|error| daemon.fault(error))?;
        self.relay(stream, Relay::new(self.session.id, to, params.encoding)).await
    }

    async fn relay(&self, mut stream: ExecStream<'_>, mut relay: Relay<'_>) -> Result<StreamReply, Fault> {
        loop {
            let step = tokio::select! {
                step = stream.next() => step.map_err(|error| self.session.daemon.fault(error)),
                () = self.caller.gone() => return Err(nobody_waits()),
            };
            match step {
                Ok(Step::Event(event)) => relay.tell(event).await,
                Ok(Step::Done(reply)) => return relay.over(reply).await.map_err(|Gone| nobody_waits()),
                Err(fault) => return relay.rest().await.map_err(|Gone| nobody_waits()).and(Err(fault)),
            }
            .map_err(|Gone| nobody_waits())?;
        }
    }

    async fn view(&self, params: AttachParams, to: &mut dyn EventSink) -> Result<Detached, Fault> {
        let daemon = &self.session.daemon;
        let mut view = daemon.client().view(&params).await.map_err(|error| daemon.fault(error))?;
        loop {
            let shown = tokio::select! {
                shown = view.next() => shown.map_err(|error| daemon.fault(error))?,
                () = self.caller.gone() => return Err(nobody_waits()),
            };
            match shown {
                ViewEvent::Bytes { offset, bytes } => {
                    let shown = Event::Bytes { stream: Stream::Stdout, offset, bytes: &bytes };
                    to.send(shown).await.map_err(|Gone| nobody_waits())?;
                }
                ViewEvent::Over(detached) => return Ok(detached),
            }
        }
    }
}
