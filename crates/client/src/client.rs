//! A handle on a daemon: asks one thing at a time per connection, over as many as it takes.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use trl_protocol::change::SubscribeParams;
use trl_protocol::exec::{AttachParams, RunParams};
use trl_protocol::system::{ShutdownParams, ShuttingDown};
use trl_protocol::{Code, Method, MethodInfo, Retry, methods, session};

use crate::changes::Changes;
use crate::connection::{Connection, Ended};
use crate::conversation::Conversation;
use crate::error::{Error, Result};
use crate::exit;
use crate::home_mark;
use crate::message::{self, Incoming};
use crate::options::Options;
use crate::patience::Patience;
use crate::remote::Dial;
use crate::start;
use crate::stream::ExecStream;
use crate::view::SessionView;

const KEPT_IDLE: usize = 4;

/// How to a daemon.
enum Way {
    Socket(Options),
    /// To one in this very process.
    InProcess(Box<Connector>),
    /// To one on another machine.
    Remote(Box<dyn Dial>),
}

/// Makes a stream whose other end is served.
type Connector = dyn Fn() -> io::Result<UnixStream> + Send + Sync;

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Socket(options) => options.fmt(f),
            Way::InProcess(_) => f.write_str("InProcess"),
            Way::Remote(dial) => dial.fmt(f),
        }
    }
}

#[derive(Debug)]
pub struct Client {
    way: Way,
    idle: Mutex<Vec<Connection>>,
    id_prefix: u64,
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
    pub fn in_process(connect: impl Fn() -> io::Result<UnixStream> + Send + Sync + 'static) -> Client {
        Client::by(Way::InProcess(Box::new(connect)))
    }

    /// A client of a daemon on another machine.
    pub fn remote(dial: impl Dial + 'static) -> Client {
        Client::by(Way::Remote(Box::new(dial)))
    }

    fn by(way: Way) -> Client {
        Client {
            way,
            idle: Mutex::new(Vec::new()),
            id_prefix: getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())),
            id_counter: AtomicU64::new(1),
        }
    }

    /// Calls a method and waits for its reply. A call whose connection is lost is sent again
    /// where the registry allows it.
    pub async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Reply> {
        self.call_as::<M, M::Reply>(params).await
    }

    /// [`Client::call`] for callers that have their own form of the params and the reply.
    pub async fn call_as<M: Method, R: DeserializeOwned>(&self, params: impl Serialize) -> Result<R> {
        let id = self.next_id();
        let line = request_line(&id, M::INFO, params).map_err(|error| unreadable(M::NAME, error))?;
        let answer = self.answer(M::INFO, id, line).await?;
        serde_json::from_str(&answer).map_err(|error| unreadable(M::NAME, error))
    }

    /// The `data` of the response. On the heap, and so compiled once for all methods.
    fn answer(
        &self,
        method: &'static MethodInfo,
        id: String,
        line: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<String>> + Send + '_>> {
        Box::pin(self.exchange_until_answered(method, id, line))
    }

    async fn exchange_until_answered(
        &self,
        method: &'static MethodInfo,
        id: String,
        line: Vec<u8>,
    ) -> Result<String> {
        let name = method.name;
        let mut patience = Patience::new();
        loop {
            let mut connection = self.take(patience.has_lost_one()).await?;
            patience.sent();
            let ended = match exchange(&mut connection, &id, &line, name).await {
                Ok(Ok(answer)) => {
                    self.keep(connection);
                    return Ok(answer);
                }
                // Refused because it is on its way out, so nothing was done: the next daemon may do it.
                Ok(Err(Error::Fault(fault))) if fault.code == Code::ShuttingDown && self.may_return() => {
                    connection.closed().await;
                    Ended::Closed
                }
                Ok(Err(error)) => {
                    self.keep(connection);
                    return Err(error);
                }
                Err(Ended::Closed) if method.rules.retry == Retry::Never => {
                    return Err(Error::Lost { method: name });
                }
                Err(ended) => ended,
            };
            if !patience.ended(ended) {
                return Err(Error::Lost { method: name });
            }
        }
    }

    /// Ends the daemon, and waits until it is gone: the next one may start then.
    pub async fn shutdown(&self, params: &ShutdownParams) -> Result<ShuttingDown> {
        let witness = self.open().await?;
        let leaving = self.call::<methods::SystemShutdown>(params).await?;
        let process = exit::Watch::new(leaving.pid);
        witness.closed().await;
        process.gone().await;
        Ok(leaving)
    }

    /// Whether a daemon is there now; none is started.
    pub async fn is_running(&self) -> bool {
        self.open_running().await.is_ok()
    }

    /// Waits until the daemon that is there now has gone; at once if there is none.
    pub async fn daemon_gone(&self) {
        if let Ok(connection) = self.open_running().await {
            connection.closed().await;
        }
    }

    async fn open_running(&self) -> Result<Connection> {
        match &self.way {
            Way::Socket(Options { socket, .. }) => Connection::open(socket).await,
            Way::InProcess(_) | Way::Remote(_) => self.open().await,
        }
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

    /// What happens in the daemon from now on; see [`Changes`].
    pub async fn changes(&self, params: &SubscribeParams) -> Result<Changes> {
        Changes::open(self, params).await
    }

    /// Requests on a connection of their own; see [`Conversation`].
    pub async fn conversation(&self) -> Result<Conversation<'_>> {
        Conversation::open(self).await
    }

    /// The same, if there is a daemon: none is started.
    pub async fn conversation_if_running(&self) -> Result<Conversation<'_>> {
        let connection = self.open_running().await?;
        self.check_home()?;
        Ok(Conversation::over(self, connection))
    }

    /// Whether the daemon died: one that ends in good order takes its socket with it.
    pub async fn has_lost_daemon(&self) -> bool {
        match &self.way {
            Way::Socket(Options { socket, .. }) => {
                matches!(Connection::open(socket).await, Err(Error::NoDaemon { .. })) && socket.exists()
            }
            Way::InProcess(_) | Way::Remote(_) => false,
        }
    }

    pub(crate) fn next_id(&self) -> String {
        format!("c{:016x}-{}", self.id_prefix, self.id_counter.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether there may be another daemon after the one that goes away.
    pub(crate) fn may_return(&self) -> bool {
        matches!(&self.way, Way::Socket(Options { start: Some(_), .. }) | Way::Remote(_))
    }

    /// A new connection, to a new daemon if need be.
    pub(crate) async fn open(&self) -> Result<Connection> {
        self.open_for(false).await
    }

    /// `again`: for a request that has lost its connection.
    pub(crate) async fn open_for(&self, again: bool) -> Result<Connection> {
        let Options { socket, start, .. } = match &self.way {
            Way::Socket(options) => options,
            Way::InProcess(connect) => return connect().map(Connection::over).map_err(Error::InProcess),
            Way::Remote(dial) => return dial.dial(again).await.map(Connection::over).map_err(Error::Remote),
        };
        let connection = match (Connection::open(socket).await, start) {
            (Err(Error::NoDaemon { .. }), Some(start)) => start::connect(socket, start).await?,
            (other, _) => other?,
        };
        self.check_home()?;
        Ok(connection)
    }

    /// A daemon that keeps its state elsewhere is not ours.
    fn check_home(&self) -> Result<()> {
        let Way::Socket(Options { socket, state_dir, .. }) = &self.way else { return Ok(()) };
        match state_dir.as_deref().and_then(|ours| home_mark::of_another(socket, ours)) {
            Some(theirs) => Err(Error::OtherHome { socket: socket.clone(), theirs }),
            None => Ok(()),
        }
    }

    /// A connection that nobody uses, else a new one. `again`: for a request that has lost its connection.
    pub(crate) async fn take(&self, again: bool) -> Result<Connection> {
        while let Some(connection) = self.pop_idle() {
            if connection.is_fresh() {
                return Ok(connection);
            }
        }
        self.open_for(again).await
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
    method: &'static str,
) -> std::result::Result<Result<String>, Ended> {
    connection.send(line).await.map_err(|_| Ended::Unread)?;
    loop {
        let line = connection.next_line().await?;
        match message::read(line, id) {
            Ok(Some(Incoming::Done(data))) => return Ok(Ok(data.to_owned())),
            Ok(Some(Incoming::Failed(fault))) => return Ok(Err(Error::Fault(fault))),
            Ok(Some(Incoming::Event { .. }) | None) => {}
            Err(problem) => return Ok(Err(Error::Unreadable { method, problem })),
        }
    }
}

/// The line of a request; where the daemon recognises repeated calls by an id, with one.
fn request_line(
    id: &str,
    method: &MethodInfo,
    params: impl Serialize,
) -> std::result::Result<Vec<u8>, serde_json::Error> {
    let Retry::ById(field) = method.rules.retry else { return message::request(id, method.name, params) };
    let mut params = serde_json::to_value(params)?;
    if let Some(params) = params.as_object_mut() {
        params.entry(field).or_insert_with(|| Value::from(id));
    }
    message::request(id, method.name, params)
}

fn unreadable(method: &'static str, problem: impl ToString) -> Error {
    Error::Unreadable { method, problem: problem.to_string() }
}

macro_rules! named {
    ($($name:ident: $method:ident;)*) => {
        /// Short for [`Client::call`].
        impl Client {
            $(pub async fn $name(
                &self,
                params: &<methods::$method as Method>::Params,
            ) -> Result<<methods::$method as Method>::Reply> {
                self.call::<methods::$method>(params).await
            })*
        }
    };
}

named! {
    session_create: SessionCreate;
    session_list: SessionList;
    session_info: SessionInfo;
    session_destroy: SessionDestroy;
    exec_screen: ExecScreen;
    exec_output: ExecOutput;
    exec_write: ExecWrite;
    exec_cancel: ExecCancel;
    exec_list: ExecList;
    exec_info: ExecInfo;
    system_ping: SystemPing;
}
