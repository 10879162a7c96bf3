//! Connections that never leave this process, for a client that runs in the daemon itself.
//!
//! They are Unix streams like any other, so that everything tied to a client's connection
//! (presence, what ends with it, backpressure) works for them too.

use std::io;

use tokio::net::UnixStream;
use tokio::sync::watch;
use trl_client::Client;
use trl_runtime::Runtime;

use crate::connection::{Connection, Phase};
use crate::unix;

/// A client of this daemon, in this process.
pub(crate) fn client(runtime: Runtime, phase: watch::Receiver<Phase>) -> Client {
    Client::in_process(move || {
        let (ours, theirs) = UnixStream::pair()?;
        serve(theirs, &runtime, &phase);
        Ok::<_, io::Error>(ours)
    })
}

fn serve(stream: UnixStream, runtime: &Runtime, phase: &watch::Receiver<Phase>) {
    tokio::spawn(unix::serve(Connection::new(runtime.clone(), phase.clone()), stream));
}
