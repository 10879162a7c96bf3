//! From a request to what does it: one match, one file per verb.

use std::time::Instant;

use trl_protocol::{Fault, Method, Reply, Request, methods};

use crate::backend::BoxFuture;
use crate::caller::{Caller, EventSink};
use crate::grants::rules;
use crate::ops::{self, events, exec, file, mail, session, system};
use crate::remote;
use crate::runtime::Runtime;

impl Runtime {
    /// Does what was asked. Runs to its end even if the client is gone by then, except
    /// that nobody waits any more for the output of a command; the command itself goes on.
    /// On the heap, and so compiled once, in this crate, however many await it.
    pub fn dispatch<'a>(
        &'a self,
        request: Request,
        caller: &'a Caller,
        events: &'a mut dyn EventSink,
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(self.counted(request, caller, events))
    }

    async fn counted(
        &self,
        request: Request,
        caller: &Caller,
        events: &mut dyn EventSink,
    ) -> Result<Reply, Fault> {
        let method = request.info().name;
        let began = Instant::now();
        let result =
            self.answer(request, caller, events).await.map_err(|fault| rules::conceal(fault, caller));
        let took = began.elapsed();
        self.0.counters.note(method, took, result.as_ref().ok());
        let took_us = took.as_micros();
        match &result {
            Ok(_) => tracing::debug!(method, took_us, "answered"),
            Err(fault) => tracing::debug!(method, took_us, code = %fault.code, "refused"),
        }
        result
    }

    /// Done here, or by the daemon that the session is on, as far as the caller's grant allows. On the heap: together
    /// these are more than a small stack has room for.
    async fn answer(
        &self,
        request: Request,
        caller: &Caller,
        to: &mut dyn EventSink,
    ) -> Result<Reply, Fault> {
        self.0.check_open()?;
        if let Some(grant) = &caller.grant {
            // The sessions under a grant are on this machine: nothing is forwarded.
            return Box::pin(self.perform(rules::admit(&self.0, grant, request)?, caller, to)).await;
        }
        match remote::session_of(&self.0, &request) {
            Some(session) => Box::pin(remote::forward(&self.0, &session, request, caller, to)).await,
            None => Box::pin(self.perform(request, caller, to)).await,
        }
    }

    // Without a catch-all: a new method does not compile until somebody answers it.
    #[deny(clippy::wildcard_enum_match_arm)]
    #[expect(clippy::too_many_lines, reason = "one arm per method and nothing else")]
    async fn perform(
        &self,
        request: Request,
        caller: &Caller,
        to: &mut dyn EventSink,
    ) -> Result<Reply, Fault> {
        use methods as m;
        let runtime = &self.0;
        match request {
            Request::SessionCreate(params) => {
                wrap::<m::SessionCreate>(session::create::perform(runtime, params, caller).await)
            }
            Request::SessionList(params) => {
                wrap::<m::SessionList>(Ok(session::list::perform(runtime, &params, caller).await))
            }
            Request::SessionInfo(params) => {
                wrap::<m::SessionInfo>(session::info::perform(runtime, &params).await)
            }
            Request::SessionDestroy(params) => {
                wrap::<m::SessionDestroy>(session::destroy::perform(runtime, &params).await)
            }
            Request::SessionRestart(params) => {
                wrap::<m::SessionRestart>(session::restart::perform(runtime, &params).await)
            }
            Request::SessionFork(params) => {
                wrap::<m::SessionFork>(session::fork::perform(runtime, params, caller).await)
            }
            Request::SessionRename(params) => {
                wrap::<m::SessionRename>(session::rename::perform(runtime, params).await)
            }
            Request::SessionBind(params) => {
                wrap::<m::SessionBind>(session::bind::perform(runtime, &params, caller))
            }
            Request::SessionAttach(params) => {
                wrap::<m::SessionAttach>(session::attach::perform(runtime, &params, caller, to).await)
            }
            Request::SessionInput(params) => {
                wrap::<m::SessionInput>(session::input::perform(runtime, params).await)
            }
            Request::SessionResize(params) => {
                wrap::<m::SessionResize>(session::resize::perform(runtime, &params).await)
            }
            Request::ExecRun(params) => wrap::<m::ExecRun>(exec::run::perform(runtime, params, caller).await),
            Request::ExecStream(params) => {
                wrap::<m::ExecStream>(exec::stream::perform(runtime, params, caller, to).await)
            }
            Request::ExecStart(params) => {
                wrap::<m::ExecStart>(exec::start::perform(runtime, params, caller).await)
            }
            Request::ExecAttach(params) => {
                wrap::<m::ExecAttach>(exec::attach::perform(runtime, &params, caller, to).await)
            }
            Request::ExecOutput(params) => {
                wrap::<m::ExecOutput>(exec::output::perform(runtime, &params).await)
            }
            Request::ExecWrite(params) => {
                wrap::<m::ExecWrite>(exec::write::perform(runtime, params, caller).await)
            }
            Request::ExecResize(params) => {
                wrap::<m::ExecResize>(exec::resize::perform(runtime, &params).await)
            }
            Request::ExecScreen(params) => {
                wrap::<m::ExecScreen>(exec::screen::perform(runtime, &params).await)
            }
            Request::ExecCancel(params) => {
                wrap::<m::ExecCancel>(exec::cancel::perform(runtime, &params).await)
            }
            Request::ExecBind(params) => wrap::<m::ExecBind>(exec::bind::perform(runtime, &params, caller)),
            Request::ExecList(params) => {
                wrap::<m::ExecList>(exec::list::perform(runtime, &params, caller).await)
            }
            Request::ExecInfo(params) => wrap::<m::ExecInfo>(exec::info::perform(runtime, &params).await),
            Request::ExecWait(params) => {
                wrap::<m::ExecWait>(exec::wait::perform(runtime, params, caller).await)
            }
            Request::FileRead(params) => wrap::<m::FileRead>(file::read::perform(runtime, params).await),
            Request::FileWrite(params) => wrap::<m::FileWrite>(file::write::perform(runtime, params).await),
            Request::FileEdit(params) => wrap::<m::FileEdit>(file::edit::perform(runtime, params).await),
            Request::FileList(params) => wrap::<m::FileList>(file::list::perform(runtime, params).await),
            Request::FileStat(params) => wrap::<m::FileStat>(file::stat::perform(runtime, params).await),
            Request::FileMove(params) => wrap::<m::FileMove>(file::move_file::perform(runtime, params).await),
            Request::FileRemove(params) => {
                wrap::<m::FileRemove>(file::remove::perform(runtime, params).await)
            }
            Request::FileMakeDir(params) => {
                wrap::<m::FileMakeDir>(file::make_dir::perform(runtime, params).await)
            }
            Request::EventsSubscribe(params) => {
                wrap::<m::EventsSubscribe>(events::subscribe::perform(runtime, params, caller, to).await)
            }
            Request::SystemPing(_) => wrap::<m::SystemPing>(Ok(system::ping::perform(runtime))),
            Request::SystemStats(_) => wrap::<m::SystemStats>(Ok(system::stats::perform(runtime).await)),
            Request::SystemInfo(_) => wrap::<m::SystemInfo>(Ok(system::info::perform(runtime))),
            Request::SystemRuntimes(_) => {
                wrap::<m::SystemRuntimes>(system::runtimes::for_caller(runtime, caller))
            }
            Request::SystemShutdown(params) => {
                wrap::<m::SystemShutdown>(Ok(system::shutdown::perform(runtime, &params)))
            }
            Request::RuntimeGrant(params) => {
                wrap::<m::RuntimeGrant>(ops::runtime::grant::perform(runtime, params).await)
            }
            Request::RuntimeRevoke(params) => {
                wrap::<m::RuntimeRevoke>(ops::runtime::revoke::perform(runtime, &params).await)
            }
            Request::RuntimeGrants(_) => wrap::<m::RuntimeGrants>(Ok(ops::runtime::grants::perform(runtime))),
            Request::MailSubscribe(params) => {
                wrap::<m::MailSubscribe>(mail::subscribe(runtime, params, caller, to).await)
            }
            Request::Mail(request) => mail::perform(runtime, request, caller).await.map(Reply::Mail),
        }
    }
}

/// A method's own reply as one of all; its type is checked against the registry.
fn wrap<M: Method<AnyReply = Reply>>(answered: Result<M::Reply, Fault>) -> Result<Reply, Fault> {
    answered.map(M::wrap)
}
