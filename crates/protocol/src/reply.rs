//! One enum for everything that can be answered: the `data` object of a response.

use serde::Serialize;

use crate::{exec, session, system};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Created(session::Created),
    Sessions(session::SessionList),
    Session(Box<session::SessionInfo>),
    Destroyed(session::Destroyed),
    Restarted(session::Restarted),
    Ran(Box<exec::RunReply>),
    Streamed(Box<exec::StreamReply>),
    Started(exec::Started),
    Output(exec::OutputReply),
    Written(exec::Written),
    Cancelled(exec::Cancelled),
    Execs(exec::ExecList),
    Exec(Box<exec::ExecInfo>),
    Pong(system::Pong),
    Stats(system::Stats),
    Info(Box<system::SystemInfo>),
    ShuttingDown(system::ShuttingDown),
}
