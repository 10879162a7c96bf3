//! `trl inbox --follow`: a line for each new message, for as long as someone reads them.
//!
//! Inside a harness it follows the harness's own session, else the session of this terminal. A message counts as
//! announced only when its line was written, and the ids of written lines are remembered here: so a daemon
//! that is killed in between costs no line and repeats none.

use std::collections::HashSet;
use std::time::Duration;

use trl_client::{Client, Error};
use trl_protocol::agent::UseParams;
use trl_protocol::mail::{Notice, NoticesParams};
use trl_protocol::{Code, methods};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::identity::Who;
use crate::reader_gone::reader_gone;
use crate::{harness, identity, notices};

/// One request; then it is asked again.
const ONE_WAIT_S: f64 = 3600.0;
/// How often it is tried whether a daemon is there again. Nothing tells when one is.
const AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn run(who: &Who, context: &Context) -> Result<u8> {
    let mut follower = Follower { who, context, written: HashSet::new(), unconfirmed: Vec::new() };
    tokio::select! {
        ended = follower.follow() => ended,
        () = reader_gone(std::io::stdout()) => Ok(0),
    }
}

struct Follower<'a> {
    who: &'a Who,
    context: &'a Context,
    /// Ids of messages whose line was written.
    written: HashSet<String>,
    /// Those among them that the daemon may not know of.
    unconfirmed: Vec<String>,
}

impl Follower<'_> {
    async fn follow(&mut self) -> Result<u8> {
        // The first one is started if need be; later the daemon may have been ended on purpose.
        let mut client = Some(self.context.client().await?);
        loop {
            if let Some(client) = client.take()
                && let Some(failure) = self.listen(&client).await
            {
                return Err(failure);
            }
            tokio::time::sleep(AGAIN).await;
            client = self.context.running().await?;
        }
    }

    /// Until the daemon is gone; `Some` is a reason to give up.
    async fn listen(&mut self, client: &Client) -> Option<Failure> {
        let harness = harness::session_id().filter(|_| self.who.given().is_none());
        let mut line = match &harness {
            Some(_) => match client.conversation().await {
                Ok(line) => line,
                Err(error) => return serious(error),
            },
            None => match self.who.try_claim(client, UseParams::default()).await {
                Ok(speaker) => speaker.line,
                Err(error) => return serious(error),
            },
        };
        loop {
            let params = NoticesParams {
                harness_session_id: harness.clone(),
                wait_s: Some(ONE_WAIT_S),
                announced: self.unconfirmed.clone(),
                ..NoticesParams::default()
            };
            match line.call::<methods::MailNotices>(&params).await {
                Ok(found) => {
                    self.unconfirmed.clear();
                    for notice in &found.new {
                        if let Err(failure) = self.write(notice) {
                            return Some(failure);
                        }
                    }
                }
                Err(error) => return serious(error),
            }
        }
    }

    fn write(&mut self, notice: &Notice) -> Result<()> {
        if self.written.insert(notice.message_id.clone()) {
            let output = self.context.output;
            match output.json {
                true => output.json(notice)?,
                false => output.line(notices::line(notice))?,
            }
        }
        self.unconfirmed.push(notice.message_id.clone());
        Ok(())
    }
}

/// What another daemon would not do better.
fn serious(error: Error) -> Option<Failure> {
    match error {
        Error::Lost { .. } | Error::NoDaemon { .. } => None,
        Error::Fault(fault) if fault.code == Code::ShuttingDown => None,
        error => Some(identity::explained(error)),
    }
}
