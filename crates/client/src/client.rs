//! A handle on a daemon: asks one thing at a time per connection, over as many as it takes.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use trl_protocol::exec::{
    AttachParams, CancelParams, Cancelled, ExecInfo, ExecList, ExecParams, ListParams, OutputParams,
    OutputReply, RunParams, RunReply, Screen, ScreenParams, Started, WaitParams, Waited, WriteParams,
    Written,
};
use trl_protocol::session::{
    CreateParams, Created, DestroyParams, Destroyed, Restarted, SessionInfo, SessionList, SessionParams,
};
use trl_protocol::system::{NoParams, Pong, ShutdownParams, ShuttingDown, Stats, SystemInfo};
use trl_protocol::{Code, session};

use crate::connection::{Connection, Ended};
use crate::conversation::Conversation;
use crate::error::{Error, Result};
use crate::exit;
use crate::message::{self, Incoming};
use crate::options::Options;
use crate::start;
use crate::stream::ExecStream;
use crate::view::SessionView;

/// Tries for one call: a daemon that is being replaced costs one or two.
const TRIES: usize = 4;
const KEPT_IDLE: usize = 4;

/// Asking these again when the answer was lost changes nothing.
const REPEATABLE: &[&str] = &[
    "session.list",
    "session.info",
    "exec.output",
    "exec.list",
    "exec.info",
    "exec.wait",
    "exec.screen",
    "session.resize",
    "system.ping",
    "system.stats",
    "system.info",
    "agent.list",
    "agent.sessions",
];

/// These carry a `run_id`, so that the command runs once however often it is asked for.
const ONCE: &[&str] = &["exec.run", "exec.start"];

/// How to a daemon.
enum Way {
    Socket(Options),
    /// To one in this very process.
    Within(Box<Connector>),
}

/// Makes a stream whose other end is served.
type Connector = dyn Fn() -> io::Result<UnixStream> + Send + Sync;

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Socket(options) => options.fmt(f),
            Way::Within(_) => f.write_str("Within"),
        }
    }
}

#[derive(Debug)]
pub struct Client {
    way: Way,
    idle: Mutex<Vec<Connection>>,
    id_prefix: u32,
    id_counter: AtomicU64,
}

impl Client {
    /// Finds the daemon, or starts one if `options` tell how.
    pub async fn connect(options: Options) -> Result<Client> {
        let client = Client::by(Way::Socket(options));
        let connection = client.open().await?;
        client.keep(connection);
        Ok(client)
    }

    /// A client of a daemon in this process: `connect` makes streams whose other end it serves.
    pub fn within(connect: impl Fn() -> io::Result<UnixStream> + Send + Sync + 'static) -> Client {
        Client::by(Way::Within(Box::new(connect)))
    }

    fn by(way: Way) -> Client {
        Client {
            way,
            idle: Mutex::new(Vec::new()),
            id_prefix: getrandom::u32().unwrap_or_else(|_| std::process::id()),
            id_counter: AtomicU64::new(1),
        }
    }

    /// Asks one thing and waits for its one answer.
    pub async fn call(&self, method: &str, params: impl Serialize) -> Result<Value> {
        self.request(method, params).await
    }

    /// [`Client::call`] with a typed answer.
    pub async fn request<R: DeserializeOwned>(&self, method: &str, params: impl Serialize) -> Result<R> {
        let unreadable = |error: serde_json::Error| Error::Unreadable {
            method: method.to_owned(),
            problem: error.to_string(),
        };
        let mut params = serde_json::to_value(params).map_err(unreadable)?;
        let id = self.next_id();
        if ONCE.contains(&method)
            && let Some(params) = params.as_object_mut()
        {
            params.entry("run_id").or_insert_with(|| Value::from(id.clone()));
        }
        let repeatable = REPEATABLE.contains(&method)
            || ["write_id", "run_id"].iter().any(|name| params.get(name).is_some());
        let line = message::request(&id, method, params).map_err(unreadable)?;
        for _ in 0..TRIES {
            let mut connection = self.take().await?;
            match exchange(&mut connection, &id, &line, method).await {
                Ok(Ok(answer)) => {
                    self.keep(connection);
                    return serde_json::from_str(&answer).map_err(unreadable);
                }
                // Refused because it is on its way out, so nothing was done: the next daemon may do it.
                Ok(Err(Error::Fault(fault))) if fault.code == Code::ShuttingDown && self.may_start() => {
                    connection.closed().await;
                }
                Ok(Err(error)) => {
                    self.keep(connection);
                    return Err(error);
                }
                Err(Ended::Unread) => {}
                Err(Ended::Closed) if repeatable => {}
                Err(Ended::Closed) => break,
            }
        }
        Err(Error::Lost { method: method.to_owned() })
    }

    /// Ends the daemon, and waits until it is gone: the next one may start then.
    pub async fn shutdown(&self, params: &ShutdownParams) -> Result<ShuttingDown> {
        let witness = self.open().await?;
        let leaving: ShuttingDown = self.request("system.shutdown", params).await?;
        let process = exit::Watch::new(leaving.pid);
        witness.closed().await;
        process.gone().await;
        Ok(leaving)
    }

    /// Runs a command and hears it live; see [`ExecStream`].
    pub async fn stream(&self, params: &RunParams) -> Result<ExecStream<'_>> {
        ExecStream::run(self, params).await
    }

    /// Hears a command, living or finished, from these offsets on.
    pub async fn attach(&self, params: &AttachParams) -> Result<ExecStream<'_>> {
        ExecStream::attach(self, params).await
    }

    /// Sees a session as a person does; see [`SessionView`].
    pub async fn view(&self, params: &session::AttachParams) -> Result<SessionView<'_>> {
        SessionView::open(self, params).await
    }

    /// Requests on a connection of their own; see [`Conversation`].
    pub async fn conversation(&self) -> Result<Conversation<'_>> {
        Conversation::open(self).await
    }

    pub(crate) fn next_id(&self) -> String {
        format!("c{:08x}-{}", self.id_prefix, self.id_counter.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn may_start(&self) -> bool {
        matches!(&self.way, Way::Socket(Options { start: Some(_), .. }))
    }

    /// A new connection, to a new daemon if need be.
    pub(crate) async fn open(&self) -> Result<Connection> {
        let Options { socket, start } = match &self.way {
            Way::Socket(options) => options,
            Way::Within(connect) => return connect().map(Connection::over).map_err(Error::Within),
        };
        match (Connection::open(socket).await, start) {
            (Err(Error::NoDaemon { .. }), Some(start)) => start::connect(socket, start).await,
            (other, _) => other,
        }
    }

    /// A connection that nobody uses, else a new one.
    pub(crate) async fn take(&self) -> Result<Connection> {
        while let Some(connection) = self.pop_idle() {
            if connection.is_fresh() {
                return Ok(connection);
            }
        }
        self.open().await
    }

    fn pop_idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(crate) fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT_IDLE {
            idle.push(connection);
        }
    }
}

/// The outer error is the connection's end, the inner one the daemon's answer.
pub(crate) async fn exchange(
    connection: &mut Connection,
    id: &str,
    line: &[u8],
    method: &str,
) -> std::result::Result<Result<String>, Ended> {
    connection.send(line).await.map_err(|_| Ended::Unread)?;
    loop {
        let line = connection.next_line().await?;
        match message::read(line, id) {
            Ok(Some(Incoming::Done(data))) => return Ok(Ok(data.to_owned())),
            Ok(Some(Incoming::Failed(fault))) => return Ok(Err(Error::Fault(fault))),
            Ok(Some(Incoming::Event { .. }) | None) => {}
            Err(problem) => return Ok(Err(Error::Unreadable { method: method.to_owned(), problem })),
        }
    }
}

macro_rules! typed {
    ($($name:ident($params:ty) -> $reply:ty = $method:literal;)*) => {
        /// One per method; what each means is told by [`trl_protocol`].
        impl Client {
            $(pub async fn $name(&self, params: &$params) -> Result<$reply> {
                self.request($method, params).await
            })*
        }
    };
}

typed! {
    session_create(CreateParams) -> Created = "session.create";
    session_list(NoParams) -> SessionList = "session.list";
    session_info(SessionParams) -> SessionInfo = "session.info";
    session_destroy(DestroyParams) -> Destroyed = "session.destroy";
    session_restart(SessionParams) -> Restarted = "session.restart";
    session_input(session::InputParams) -> session::InputTaken = "session.input";
    session_resize(session::ResizeParams) -> session::Resized = "session.resize";
    exec_screen(ScreenParams) -> Screen = "exec.screen";
    exec_run(RunParams) -> RunReply = "exec.run";
    exec_start(RunParams) -> Started = "exec.start";
    exec_output(OutputParams) -> OutputReply = "exec.output";
    exec_write(WriteParams) -> Written = "exec.write";
    exec_cancel(CancelParams) -> Cancelled = "exec.cancel";
    exec_list(ListParams) -> ExecList = "exec.list";
    exec_wait(WaitParams) -> Waited = "exec.wait";
    exec_info(ExecParams) -> ExecInfo = "exec.info";
    system_ping(NoParams) -> Pong = "system.ping";
    system_stats(NoParams) -> Stats = "system.stats";
    system_info(NoParams) -> SystemInfo = "system.info";
}
