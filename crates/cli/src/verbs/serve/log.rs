//! The daemon's log: to stderr, or to a file. Never to stdout, which is a transport.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Settings};
use crate::failure::{Failure, Result};

/// A log this long is set aside when a daemon starts; one older log is kept.
const MAX_LOG: u64 = 8 << 20;

pub(super) fn start(settings: &Settings, detached: bool) -> Result<()> {
    let file = if detached { Some(settings.daemon_log()) } else { settings.log_file.clone() };
    if let Some(path) = file {
        let failed = |error: io::Error| Failure::system(&format!("the log {}", path.display()), error);
        let file = match &settings.log_file {
            Some(_) => open(&path, OFlags::empty()),
            None => {
                // In a directory of another user, a link could lead us to any file of ours.
                trl_sys::private::make_private(&settings.places.state)
                    .map_err(|error| Failure::unavailable(error.to_string()))?;
                open(&path, OFlags::NOFOLLOW | OFlags::NONBLOCK)
            }
        };
        let file = file.map_err(failed)?;
        // As stderr itself, so that a panic's last words are there too.
        rustix::stdio::dup2_stderr(&file).map_err(|error| failed(error.into()))?;
    }
    // The MCP library tells of every message; whoever wants that names it.
    let wanted = format!("rmcp=warn,{}", settings.log_filter);
    let filter = EnvFilter::try_new(wanted).map_err(|error| {
        Failure::usage(format!("the log filter {:?} cannot be read: {error}", settings.log_filter))
            .hint("TRL_LOG and --log take e.g. `info`, `debug` or `trl_runtime=trace,info`")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()),
    );
    let started = match settings.log_format {
        LogFormat::Human => log.with_target(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::system("starting the log", error))
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        trl_sys::private::create_dir(dir)?;
    }
    if path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > MAX_LOG) {
        let mut older = path.as_os_str().to_owned();
        older.push(".1");
        std::fs::rename(path, older)?;
    }
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    trl_sys::private::file_options().append(true).create(true).custom_flags(flags).open(path)
}
