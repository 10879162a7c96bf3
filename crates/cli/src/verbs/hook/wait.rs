//! The waiter: beside an idle session of a harness, until mail comes for it.
//!
//! The daemon ends it when another waiter comes for the same session, or the session has ended. It ends by itself
//! when the harness is gone, which closes our stderr, or when the daemon stays away.

use std::time::{Duration, Instant};

use trl_client::Error;
use trl_protocol::mail::NoticesParams;
use trl_protocol::{Code, methods};

use crate::context::Context;
use crate::failure::Result;
use crate::reader_gone::reader_gone;
use crate::{notices, output};

/// With this status, Claude Code gives our stderr to the model and starts a turn.
const WAKE: u8 = 2;
/// For so long a daemon may be away.
const ABSENCE: Duration = Duration::from_secs(30);
/// How often it is tried whether it is there again. Nothing tells when it is.
const AGAIN: Duration = Duration::from_millis(500);
/// One request; then it is asked again.
const ONE_WAIT_S: f64 = 3600.0;

pub(super) async fn run(session_id: &str, context: &Context) -> Result<u8> {
    Ok(tokio::select! {
        status = wait(session_id, context) => status,
        () = reader_gone(std::io::stderr()) => 0,
    })
}

async fn wait(session_id: &str, context: &Context) -> u8 {
    let mut seen = Instant::now();
    loop {
        match one_wait(session_id, context).await {
            Waited::Mail(text) => {
                output::plain_to_stderr(&text);
                return WAKE;
            }
            Waited::Over => return 0,
            Waited::Nothing => seen = Instant::now(),
            Waited::NoDaemon if seen.elapsed() > ABSENCE => return 0,
            Waited::NoDaemon => tokio::time::sleep(AGAIN).await,
        }
    }
}

enum Waited {
    Mail(String),
    Over,
    Nothing,
    NoDaemon,
}

async fn one_wait(session_id: &str, context: &Context) -> Waited {
    let Ok(Some(client)) = context.running().await else { return Waited::NoDaemon };
    let params = NoticesParams {
        harness_session_id: Some(session_id.to_owned()),
        wait_s: Some(ONE_WAIT_S),
        waiter: true,
        wake: true,
        claim: true,
        ..NoticesParams::default()
    };
    match client.call::<methods::MailNotices>(&params).await {
        Ok(found) if !found.new.is_empty() => Waited::Mail(format!(
            "trl: {}. Read with the inbox tool. {}",
            notices::by_sender(&found.new),
            notices::NOT_FROM_YOUR_USER
        )),
        Ok(found) if found.over => Waited::Over,
        Ok(_) => Waited::Nothing,
        Err(Error::Lost { .. } | Error::NoDaemon { .. }) => Waited::NoDaemon,
        Err(Error::Fault(fault)) if fault.code == Code::ShuttingDown => Waited::NoDaemon,
        // A daemon that does not know the request, or has no mail, will not learn it.
        Err(_) => Waited::Over,
    }
}
