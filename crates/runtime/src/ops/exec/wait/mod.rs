//! `exec.wait`: the end of a command, something in its output, or a port that it opens.

mod log;
mod port;

use std::sync::Arc;
use std::time::Duration;

use trl_protocol::exec::{ExecInfo, Exit, LogUntil, Matched, PortUntil, Until, WaitParams, Waited};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Code, Fault};

use super::info;
use super::run::nobody_waits;
use crate::backend::LostSession;
use crate::caller::Caller;
use crate::lookup::ExecSource;
use crate::runtime::Inner;
use crate::seconds;
use crate::session::{Session, unexpected};

/// What is waited for, checked.
enum Goal {
    Exit,
    Log(log::Search),
    Port(PortUntil),
}

/// How a wait ended, if its time was not over.
enum Came {
    Matched(Matched),
    /// The command ended first.
    Over,
}

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: WaitParams,
    caller: &Caller,
) -> Result<Waited, Fault> {
    let goal = Goal::of(params.until.unwrap_or_default())?;
    let patience = seconds::checked("timeout_s", params.timeout_s.unwrap_or(0.0))?;
    let id = params.exec_id;
    let (session, exec) = match runtime.exec(&id).await? {
        ExecSource::Host(session, exec) => (session, exec),
        ExecSource::Disk(lost, exec) => return of_lost(goal, &lost, exec, &id),
    };
    let wait = async {
        match goal {
            Goal::Exit => end(&session, exec).await.map(|()| Came::Matched(Matched::Exit(true))),
            Goal::Log(search) => log::wait(&session, exec, search).await,
            Goal::Port(until) => port::wait(&session, exec, until).await,
        }
    };
    let time_over = async {
        match patience {
            0.0 => std::future::pending().await,
            seconds => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
        }
    };
    let came = tokio::select! {
        came = wait => came?,
        () = caller.gone() => return Err(nobody_waits()),
        () = time_over => {
            let told = info::of(&session, exec, &id).await?;
            let message = format!("timeout after {patience} s; {id} continues");
            return Err(Fault::new(Code::WaitTimeout, message).with_details(details(&told)));
        }
    };
    let told = info::of(&session, exec, &id).await?;
    judge(came, told, &id)
}

fn judge(came: Came, info: ExecInfo, id: &str) -> Result<Waited, Fault> {
    match came {
        Came::Matched(matched) => Ok(Waited { info, matched }),
        Came::Over => {
            let message = format!("{id} ended before what was waited for came; its result is in details");
            Err(Fault::new(Code::CommandFailed, message).with_details(details(&info)))
        }
    }
}

/// Of a session that is lost nothing more will come; what it printed is still there.
fn of_lost(goal: Goal, lost: &LostSession, exec: u64, id: &str) -> Result<Waited, Fault> {
    let came = match goal {
        Goal::Exit => Came::Matched(Matched::Exit(true)),
        Goal::Log(search) => log::look(lost, exec, search)?,
        Goal::Port(_) => Came::Over,
    };
    judge(came, lost.info(exec)?, id)
}

fn details(info: &ExecInfo) -> serde_json::Value {
    super::run::details(info)
}

/// Resolves when the command is over.
async fn end(session: &Session, exec: u64) -> Result<(), Fault> {
    match session.link.call(|req| ToHost::Wait { req, exec }).await?.message {
        FromHost::Done { .. } => Ok(()),
        other => Err(unexpected(session.id, &other)),
    }
}

impl Goal {
    fn of(until: Until) -> Result<Goal, Fault> {
        match until {
            Until { exit: None | Some(Exit::Said(true) | Exit::Empty(_)), log: None, port: None } => {
                Ok(Goal::Exit)
            }
            Until { exit: None, log: Some(log), port: None } => Goal::of_log(&log),
            Until { exit: None, log: None, port: Some(port) } => Goal::of_port(port),
            Until { .. } => Err(bad("until", "one of exit (true), log and port is expected")),
        }
    }

    fn of_log(log: &LogUntil) -> Result<Goal, Fault> {
        let (field, patterns) = match (&log.pattern, log.patterns.as_slice()) {
            (Some(pattern), []) => ("until.log.pattern", std::slice::from_ref(pattern)),
            (None, patterns) if !patterns.is_empty() => ("until.log.patterns", patterns),
            _ => return Err(bad("until.log", "one of pattern and patterns is expected")),
        };
        if patterns.iter().any(String::is_empty) {
            return Err(bad(field, "a pattern that is empty is everywhere"));
        }
        if log.from_offset > 0 && log.from_offsets.is_some() {
            return Err(bad("until.log.from_offsets", "it cannot be given together with from_offset"));
        }
        let search = log::Search::new(log, patterns).map_err(|problem| bad(field, &problem))?;
        Ok(Goal::Log(search))
    }

    fn of_port(port: PortUntil) -> Result<Goal, Fault> {
        if port.port == 0 {
            return Err(bad("until.port.port", "a port is between 1 and 65535"));
        }
        let is_path =
            |path: &String| path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        if port.http_path.as_ref().is_some_and(|path| !is_path(path)) {
            return Err(bad("until.port.http_path", "a path begins with / and has no spaces"));
        }
        let is_host = |host: &String| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-_%".contains(&byte))
        };
        if port.host.as_ref().is_some_and(|host| !is_host(host)) {
            return Err(bad("until.port.host", "a name or an address is expected"));
        }
        Ok(Goal::Port(port))
    }
}

fn bad(field: &str, problem: &str) -> Fault {
    Fault::invalid(format!("param `{field}` of exec.wait: {problem}"))
        .with_details(serde_json::json!({ "field": field }))
}
