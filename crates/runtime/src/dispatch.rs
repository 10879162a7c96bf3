//! From a request to what does it: one match, one file per verb.

use std::time::Instant;

use trl_protocol::{Fault, Reply, Request};

use crate::caller::{Caller, EventSink};
use crate::ops::{events, exec, mail, session, system};
use crate::runtime::Runtime;

impl Runtime {
    /// Does what was asked. Runs to its end even if the client is gone by then, except
    /// that nobody waits any more for the output of a command; the command itself goes on.
    pub async fn dispatch<S: EventSink>(
        &self,
        request: Request,
        caller: &Caller,
        events: &mut S,
    ) -> Result<Reply, Fault> {
        let method = request.method();
        let began = Instant::now();
        let result = self.perform(request, caller, events).await;
        let took = began.elapsed();
        self.0.counters.note(method, took, result.as_ref().ok());
        let took_us = took.as_micros();
        match &result {
            Ok(_) => tracing::debug!(method, took_us, "answered"),
            Err(fault) => tracing::debug!(method, took_us, code = %fault.code, "refused"),
        }
        result
    }

    async fn perform<S: EventSink>(
        &self,
        request: Request,
        caller: &Caller,
        events_to: &mut S,
    ) -> Result<Reply, Fault> {
        let runtime = &self.0;
        runtime.check_open()?;
        match request {
            Request::SessionCreate(params) => {
                session::create::perform(runtime, params, caller).await.map(Reply::Created)
            }
            Request::SessionList(_) => Ok(Reply::Sessions(session::list::perform(runtime).await)),
            Request::SessionInfo(params) => {
                session::info::perform(runtime, &params).await.map(Box::new).map(Reply::Session)
            }
            Request::SessionDestroy(params) => {
                session::destroy::perform(runtime, &params).await.map(Reply::Destroyed)
            }
            Request::SessionRestart(params) => {
                session::restart::perform(runtime, &params).await.map(Reply::Restarted)
            }
            Request::SessionBind(params) => {
                session::bind::perform(runtime, &params, caller).map(Reply::SessionBound)
            }
            Request::SessionAttach(params) => {
                session::attach::perform(runtime, &params, caller, events_to).await.map(Reply::Detached)
            }
            Request::SessionInput(params) => {
                session::input::perform(runtime, params).await.map(Reply::InputTaken)
            }
            Request::SessionResize(params) => {
                session::resize::perform(runtime, &params).await.map(Reply::SessionResized)
            }
            Request::ExecRun(params) => {
                exec::run::perform(runtime, params, caller).await.map(Box::new).map(Reply::Ran)
            }
            Request::ExecStream(params) => exec::stream::perform(runtime, params, caller, events_to)
                .await
                .map(Box::new)
                .map(Reply::Streamed),
            Request::ExecStart(params) => exec::start::perform(runtime, params).await.map(Reply::Started),
            Request::ExecAttach(params) => exec::attach::perform(runtime, &params, caller, events_to)
                .await
                .map(Box::new)
                .map(Reply::Streamed),
            Request::ExecOutput(params) => exec::output::perform(runtime, &params).await.map(Reply::Output),
            Request::ExecWrite(params) => {
                exec::write::perform(runtime, params, caller).await.map(Reply::Written)
            }
            Request::ExecResize(params) => exec::resize::perform(runtime, &params).await.map(Reply::Resized),
            Request::ExecScreen(params) => {
                exec::screen::perform(runtime, &params).await.map(Box::new).map(Reply::Screen)
            }
            Request::ExecCancel(params) => {
                exec::cancel::perform(runtime, &params).await.map(Reply::Cancelled)
            }
            Request::ExecBind(params) => exec::bind::perform(runtime, &params, caller).map(Reply::ExecBound),
            Request::ExecList(params) => exec::list::perform(runtime, &params).await.map(Reply::Execs),
            Request::ExecInfo(params) => {
                exec::info::perform(runtime, &params).await.map(Box::new).map(Reply::Exec)
            }
            Request::ExecWait(params) => {
                exec::wait::perform(runtime, params, caller).await.map(Box::new).map(Reply::Waited)
            }
            Request::EventsSubscribe(params) => {
                events::subscribe::perform(runtime, params, caller, events_to)
                    .await
                    .map(Reply::SubscriptionOver)
            }
            Request::MailSubscribe(params) => {
                mail::subscribe(runtime, params, caller, events_to).await.map(Box::new).map(Reply::Mail)
            }
            Request::SystemPing(_) => Ok(Reply::Pong(system::ping::perform(runtime))),
            Request::SystemStats(_) => Ok(Reply::Stats(system::stats::perform(runtime).await)),
            Request::SystemInfo(_) => Ok(Reply::Info(Box::new(system::info::perform(runtime)))),
            Request::SystemRuntimes(_) => Ok(Reply::Runtimes(system::runtimes::perform(runtime))),
            Request::SystemShutdown(params) => {
                Ok(Reply::ShuttingDown(system::shutdown::perform(runtime, &params)))
            }
            // Agents, their contacts and their mail.
            request => mail::perform(runtime, request, caller).await.map(Box::new).map(Reply::Mail),
        }
    }
}
