//! The waiter: beside an idle session of a harness, until mail comes for it.
//!
//! The daemon ends it when another waiter comes for the same session, or the session has ended. It ends by itself
//! when the harness is gone, which closes our stderr, or when the daemon stays away.

use std::time::{Duration, Instant};

use trl_client::Error;
use trl_protocol::mail::NoticesParams;
use trl_protocol::{Code, methods};

use super::Hook;
use crate::context::Context;
use crate::failure::Result;
use crate::reader_gone::reader_gone;
use crate::{notices, output};

/// With this status, Claude Code gives our stderr to the model and starts a turn.
const WAKE: u8 = 2;
/// How often it is tried whether it is there again. Nothing tells when it is.
const AGAIN: Duration = Duration::from_millis(500);
/// One request; then it is asked again.
const ONE_WAIT_S: f64 = 3600.0;

/// `absence` is how long a daemon may be away.
pub(super) async fn run(hook: &Hook, absence: Duration, context: &Context) -> Result<u8> {
    Ok(tokio::select! {
        status = wait(hook, absence, context) => status,
        () = reader_gone(std::io::stderr()) => 0,
    })
}

async fn wait(hook: &Hook, absence: Duration, context: &Context) -> u8 {
    let mut absence = Absence { longest: absence, since: None };
    loop {
        let waited = one_wait(hook, context).await;
        if absence.is_too_long(matches!(waited, Waited::NoDaemon), Instant::now()) {
            return 0;
        }
        match waited {
            Waited::Mail(text) => {
                output::plain_to_stderr(&text);
                return WAKE;
            }
            Waited::Over => return 0,
            Waited::Nothing => {}
            Waited::Lost | Waited::NoDaemon => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// How long a daemon is away. One that was lost after hours of waiting has just left.
#[derive(Debug)]
struct Absence {
    longest: Duration,
    since: Option<Instant>,
}

impl Absence {
    fn is_too_long(&mut self, is_away: bool, now: Instant) -> bool {
        if !is_away {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) > self.longest
    }
}

enum Waited {
    Mail(String),
    Over,
    Nothing,
    /// It was there, and is gone or going.
    Lost,
    NoDaemon,
}

async fn one_wait(hook: &Hook, context: &Context) -> Waited {
    let Ok(Some(client)) = context.running().await else { return Waited::NoDaemon };
    let params = NoticesParams {
        wait_s: Some(ONE_WAIT_S),
        waiter: true,
        wake: true,
        claim: true,
        // An auto-responder that is on answers instead of the session, as at the end of a turn.
        respond: true,
        ..hook.notices()
    };
    match client.call::<methods::MailNotices>(&params).await {
        Ok(found) if !found.new.is_empty() => Waited::Mail(format!(
            "trl: {}. Read with the inbox tool. {}",
            notices::by_sender(&found.new),
            notices::NOT_FROM_YOUR_USER
        )),
        Ok(found) if found.over => Waited::Over,
        Ok(_) => Waited::Nothing,
        Err(Error::NoDaemon { .. }) => Waited::NoDaemon,
        Err(Error::Lost { .. }) => Waited::Lost,
        Err(Error::Fault(fault)) if fault.code == Code::ShuttingDown => Waited::Lost,
        // A daemon that does not know the request, or has no mail, will not learn it.
        Err(_) => Waited::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_without_a_daemon_counts() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut absence = Absence { longest: Duration::from_secs(30), since: None };
        assert!(!absence.is_too_long(false, at(0)));
        // Lost after two hours; it is back in time, and away again later.
        for (is_away, seconds) in [(false, 7200), (true, 7201), (true, 7230), (false, 7231), (true, 7300)] {
            assert!(!absence.is_too_long(is_away, at(seconds)), "{seconds}");
        }
        assert!(!absence.is_too_long(true, at(7330)));
        assert!(absence.is_too_long(true, at(7331)));
    }
}
