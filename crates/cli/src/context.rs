//! What every client verb starts from: settings, a way to print, a way to the daemon.

use std::ffi::OsString;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Runtime;
use trl_client::{Client, Error, Options, Start};

use crate::args::Global;
use crate::config::{self, Settings};
use crate::failure::{Failure, Result};
use crate::output::Output;

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) output: Output,
    global: Global,
}

impl Context {
    pub(crate) fn load(global: &Global, output: Output) -> Result<Context> {
        Ok(Context { settings: config::load(&global.flags())?, output, global: global.clone() })
    }

    /// The daemon, started now if there is none and nobody forbade it.
    pub(crate) async fn client(&self) -> Result<Arc<Client>> {
        let start = if self.global.no_start { None } else { Some(self.start()?) };
        self.connect(start).await
    }

    /// The daemon that runs, if one does.
    pub(crate) async fn running(&self) -> Result<Option<Arc<Client>>> {
        match Client::connect(self.options(None)).await {
            Ok(client) => Ok(Some(Arc::new(client))),
            Err(Error::NoDaemon { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// False if nobody has ever used mail here, as far as we can see.
    pub(crate) fn may_have_mail(&self) -> bool {
        self.settings.socket_named || self.settings.places.state.join("mail/mail.db").exists()
    }

    /// A daemon of this binary, whatever `--no-start` says.
    pub(crate) async fn started(&self) -> Result<Arc<Client>> {
        self.connect(Some(self.start()?)).await
    }

    async fn connect(&self, start: Option<Start>) -> Result<Arc<Client>> {
        Ok(Arc::new(Client::connect(self.options(start)).await?))
    }

    fn options(&self, start: Option<Start>) -> Options {
        let Settings { socket, socket_named, places, .. } = &self.settings;
        // Whoever names a socket means the daemon there, whoever started it.
        let compares = places.is_common_to_homes && !socket_named;
        Options { socket: socket.clone(), state_dir: compares.then(|| places.state.clone()), start }
    }

    /// The daemon is told what we were told by flags; the rest it finds as we did.
    fn start(&self) -> Result<Start> {
        let program =
            std::env::current_exe().map_err(|error| Failure::system("finding this program's file", error))?;
        let mut args: Vec<OsString> = vec!["serve".into(), "--detached".into()];
        let paths = [
            ("--home", self.global.home.clone().map(OsString::from)),
            // Which of the possible ones it is may depend on who else runs a daemon now.
            ("--runtime-dir", Some(self.settings.places.runtime.clone().into_os_string())),
            ("--state-dir", self.global.state_dir.clone().map(OsString::from)),
            ("--config", self.global.config.clone().map(OsString::from)),
            ("--socket", Some(self.settings.socket.clone().into_os_string())),
        ];
        for (flag, value) in paths {
            if let Some(value) = value {
                args.extend([OsString::from(flag), value]);
            }
        }
        let places = &self.settings.places;
        Ok(Start { program, args, lock: places.runtime.join("start.lock"), log: self.settings.daemon_log() })
    }
}

pub(crate) fn event_loop() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("starting the event loop", error))
}

/// Runs a client's work. What is left over (a thread that reads a terminal) is not waited for.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = event_loop()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}
