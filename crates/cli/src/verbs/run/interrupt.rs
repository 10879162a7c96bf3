//! Ctrl-C: cancels the command; again: kills it; a third time: leaves it behind.

use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use trl_client::Client;
use trl_protocol::exec::{CancelParams, SignalName};
use trl_protocol::{ExecId, methods};

use crate::failure::Failure;
use crate::output;

/// Resolves only when the person has had enough.
pub(super) async fn listen(client: &Arc<Client>, exec: watch::Receiver<Option<ExecId>>) -> Failure {
    let (mut interrupts, mut terminations) =
        match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(interrupts), Ok(terminations)) => (interrupts, terminations),
            (Err(error), _) | (_, Err(error)) => return Failure::system("listening for signals", error),
        };
    next(&mut interrupts, &mut terminations).await;
    tokio::spawn(cancel(Arc::clone(client), exec.clone(), None));
    next(&mut interrupts, &mut terminations).await;
    tokio::spawn(cancel(Arc::clone(client), exec.clone(), Some("KILL")));
    next(&mut interrupts, &mut terminations).await;
    if let Some(exec) = *exec.borrow() {
        output::note(&format!("{exec} is left behind; `trl cancel {exec}` ends it"));
    }
    Failure::interrupted()
}

async fn next(interrupts: &mut Signal, terminations: &mut Signal) {
    tokio::select! {
        _ = interrupts.recv() => {}
        _ = terminations.recv() => {}
    }
}

/// As soon as the command has an id: an earlier Ctrl-C waits for it.
async fn cancel(client: Arc<Client>, mut exec: watch::Receiver<Option<ExecId>>, signal: Option<&str>) {
    let id = match exec.wait_for(Option::is_some).await {
        Ok(id) => *id,
        // The command is over.
        Err(_) => return,
    };
    let params = CancelParams {
        exec_id: id.map(|id| id.to_string()),
        session_id: None,
        signal: signal.map(|name| SignalName::Name(name.to_owned())),
    };
    if let Err(error) = client.call::<methods::ExecCancel>(&params).await {
        output::note(&format!("cannot cancel the command: {error}"));
    }
}
