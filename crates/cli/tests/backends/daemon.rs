//! A daemon inside the test, with the backend that the test gives it.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_protocol::{Event, Request};
use trl_runtime::backend::Backend;
use trl_runtime::{BoxFuture, Config, EventSink, Gone, Presence, Runtime};
use trl_testkit::GUARD;

/// A place to test: how its backend is made, and how one of its hosts is killed from outside.
pub(crate) trait World {
    /// A backend as a new daemon makes it. What an earlier one left is still there.
    fn backend(&self, config: &Config) -> Arc<dyn Backend>;

    /// Kills the host of a session without the runtime's help.
    fn kill_host(&self, info: &Value);

    /// Fails if anything of a session is left.
    fn assert_no_leftovers(&self);
}

/// The directories of a daemon, which outlive it.
pub(crate) struct Home {
    pub(crate) dir: TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        Home { dir: tempfile::Builder::new().prefix("trl-test-").tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn config(&self) -> Config {
        let (runtime, state) = (self.path().join("run"), self.path().join("state"));
        let mut config = Config::new(runtime, state, trl_testkit::trl!().into());
        config.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        config.env.insert("HOME".into(), self.path().display().to_string());
        config.working_dir = self.path().to_owned();
        config.min_free_memory = 0;
        config
    }
}

pub(crate) struct Daemon {
    tasks: tokio::runtime::Handle,
    runtime: Runtime,
    /// Dropped, the event loop ends with every task on it.
    stop: tokio::sync::oneshot::Sender<()>,
    event_loop: std::thread::JoinHandle<()>,
}

/// A request that is under way.
pub(crate) struct Asked {
    answer: mpsc::Receiver<Result<Value, Value>>,
    /// Streams and their bytes, as they come.
    pub(crate) events: mpsc::Receiver<(String, Vec<u8>)>,
}

impl Asked {
    #[track_caller]
    pub(crate) fn answer(&self) -> Result<Value, Value> {
        self.answer.recv_timeout(GUARD).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// Waits for the bytes of one stream to be these.
    #[track_caller]
    pub(crate) fn hears(&self, stream: &str, expected: &[u8]) {
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            let (name, bytes) = self.events.recv_timeout(GUARD).unwrap_or_else(|error| {
                panic!("{error}, having heard {:?}", String::from_utf8_lossy(&heard))
            });
            if name == stream {
                heard.extend(bytes);
            }
        }
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(expected));
    }
}

struct Sink(mpsc::Sender<(String, Vec<u8>)>);

impl EventSink for Sink {
    fn send<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, Result<(), Gone>> {
        let told = match event {
            Event::Started { exec_id, .. } => ("started".to_owned(), exec_id.to_string().into_bytes()),
            Event::Text { stream, text, .. } => (stream.name().to_owned(), text.as_bytes().to_vec()),
            Event::Bytes { stream, bytes, .. } => (stream.name().to_owned(), bytes.to_vec()),
            other => (format!("{other:?}"), Vec::new()),
        };
        Box::pin(std::future::ready(self.0.send(told).map_err(|_| Gone)))
    }
}

impl Daemon {
    pub(crate) fn start(home: &Home, world: &dyn World) -> Daemon {
        let config = home.config();
        let built = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let runtime = built.block_on(async {
            let backend = world.backend(&config);
            Runtime::start_on(config, backend, Vec::new()).await
        });
        let tasks = built.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let event_loop = std::thread::spawn(move || {
            // The sender is only ever dropped.
            let _ = built.block_on(stopped);
        });
        Daemon { tasks, runtime, stop, event_loop }
    }

    /// Sends a request and does not wait for its answer.
    #[track_caller]
    pub(crate) fn begin(&self, method: &str, params: Value) -> Asked {
        let request =
            Request::parse(method, params).unwrap_or_else(|fault| panic!("{method}: {}", fault.message));
        let ((say, answer), (tell, events)) = (mpsc::channel(), mpsc::channel());
        let runtime = self.runtime.clone();
        self.tasks.spawn(async move {
            let presence = Presence::new();
            let result = runtime.dispatch(request, &presence.caller(None), &mut Sink(tell)).await;
            let told = result.map(|reply| json!(reply)).map_err(|fault| json!(fault));
            // A test that does not wait any more has failed or does not care.
            let _ = say.send(told);
        });
        Asked { answer, events }
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, params: Value) -> Result<Value, Value> {
        self.begin(method, params).answer()
    }

    #[track_caller]
    pub(crate) fn ok(&self, method: &str, params: Value) -> Value {
        self.ask(method, params.clone()).unwrap_or_else(|fault| panic!("{method} {params}: {fault}"))
    }

    #[track_caller]
    pub(crate) fn fails(&self, method: &str, params: Value, code: &str) -> String {
        let fault = self.ask(method, params).expect_err("a fault");
        assert_eq!(fault["code"], code, "{fault}");
        fault["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Ends without any chance to clean up.
    pub(crate) fn kill(self) {
        let Daemon { tasks, runtime, stop, event_loop } = self;
        drop((tasks, runtime, stop));
        event_loop.join().unwrap();
    }

    /// Ends in good order, with all sessions.
    pub(crate) fn end(self) {
        self.runtime.refuse(trl_runtime::Stop { keep_sessions: false });
        let (runtime, (say, ended)) = (self.runtime.clone(), mpsc::channel());
        self.tasks.spawn(async move {
            let _ = say.send(runtime.end().await);
        });
        assert!(!ended.recv_timeout(GUARD).unwrap(), "no session is kept");
        self.kill();
    }
}
