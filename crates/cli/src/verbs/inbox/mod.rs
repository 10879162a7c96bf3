//! `trl inbox`: an agent's mail in this terminal.

mod follow;

use trl_client::{Client, Conversation};
use trl_protocol::agent::CallerParams;
use trl_protocol::mail::{DeadLetters, Held, Inbox, InboxParams};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::identity::{Who, explained, is_replaced};
use crate::table::{Keep, Table};
use crate::{human, letter, output};

/// What is on its way when we ask, held for us or just sent, arrives within this.
const MOMENT_S: f64 = 0.3;

/// Read mail; the messages shown are marked as read
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    /// Do not mark messages as read
    #[arg(long)]
    peek: bool,
    /// Wait this long for the first message
    #[arg(long, value_name = "SECONDS")]
    wait: Option<f64>,
    /// Most messages to show
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Print a line for each new message, with its sender and id, and go on; nothing counts as read
    #[arg(long, conflicts_with_all = ["peek", "wait", "limit", "held", "dead_letters"])]
    follow: bool,
    /// Show messages that wait for a session that is not live
    #[arg(long, conflicts_with_all = ["peek", "wait", "limit"])]
    held: bool,
    /// Show messages that could not be decrypted or answered automatically
    #[arg(long, conflicts_with_all = ["peek", "wait", "limit", "held"])]
    dead_letters: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let wait = args.wait.unwrap_or(MOMENT_S);
    if !(wait.is_finite() && wait >= 0.0) {
        return Err(Failure::usage(format!("--wait {wait}: give seconds, 0 or more")));
    }
    if args.follow {
        return follow::run(&args.who, context).await;
    }
    let client = context.client().await?;
    let params =
        InboxParams { peek: args.peek, limit: args.limit, wait_s: Some(wait), ..InboxParams::default() };
    if args.peek || args.held || args.dead_letters {
        let mut looks = args.who.look(&client).await?;
        let shown = look(args, &params, &mut looks.line, context).await;
        looks.leave().await?;
        return shown;
    }
    let mut speaks = args.who.speak(&client).await?;
    let inbox = speaks.call::<methods::MailInbox>(&params).await.map_err(explained)?;
    print(&inbox, context)?;
    if inbox.messages.is_empty() {
        return Ok(0);
    }
    match acknowledge(&args.who, &client, speaks, &inbox).await {
        Ok(()) => Ok(0),
        // No second document on stdout: the messages are there.
        Err(failure) => {
            let why = failure.message();
            output::note(&format!("{why}; the messages are not marked as read and will be shown again"));
            Ok(failure.status)
        }
    }
}

/// Nothing is taken, and nothing counts as read.
async fn look(
    args: &Args,
    params: &InboxParams,
    line: &mut Conversation<'_>,
    context: &Context,
) -> Result<u8> {
    if args.held {
        let held = line.call::<methods::MailHeld>(&CallerParams::default()).await?;
        return waiting(&held, context);
    }
    if args.dead_letters {
        let dead = line.call::<methods::MailDeadLetters>(&CallerParams::default()).await?;
        return unread(&dead, context);
    }
    print(&line.call::<methods::MailInbox>(params).await.map_err(explained)?, context)?;
    Ok(0)
}

/// Only now, since what could not be printed has not been read. By id, so that the next daemon can be told as well.
async fn acknowledge(who: &Who, client: &Client, mut speaks: Conversation<'_>, inbox: &Inbox) -> Result<()> {
    let shown = inbox.messages.iter().map(|message| message.message_id.clone()).collect();
    let params = InboxParams { peek: true, limit: Some(1), ack: Some(shown), ..InboxParams::default() };
    let mut attempts = 3;
    loop {
        match speaks.call::<methods::MailInbox>(&params).await {
            Ok(_) => return Ok(()),
            Err(error) if is_replaced(&error) && attempts > 0 => attempts -= 1,
            Err(error) => return Err(explained(error)),
        }
        speaks = who.speak_again(client).await?;
    }
}

fn print(inbox: &Inbox, context: &Context) -> Result<()> {
    let output = context.output;
    if output.json {
        return output.json(inbox);
    }
    if inbox.messages.is_empty() {
        output::note_to_person("no mail");
        return Ok(());
    }
    for message in &inbox.messages {
        output.text(&letter::show(message, output.paint))?;
    }
    if inbox.remaining > 0 {
        output::note(&format!("{} more; `trl inbox` shows them", inbox.remaining));
    }
    Ok(())
}

fn waiting(held: &Held, context: &Context) -> Result<u8> {
    let output = context.output;
    if output.json {
        output.json(held)?;
        return Ok(0);
    }
    if held.messages.is_empty() {
        output::note_to_person("nothing waits for a session");
        return Ok(0);
    }
    let mut table = Table::new(&["MESSAGE", "FROM", "FOR", "SINCE", "GOES BACK"], "FROM", Keep::Start);
    for row in &held.messages {
        table.row(vec![
            row.message_id.clone(),
            row.from.clone(),
            row.to_session.clone().unwrap_or_else(|| "-".to_owned()),
            human::ago(&row.since),
            row.bounces_at.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}

fn unread(dead: &DeadLetters, context: &Context) -> Result<u8> {
    let output = context.output;
    if output.json {
        output.json(dead)?;
        return Ok(0);
    }
    if dead.dead_letters.is_empty() {
        output::note_to_person("no dead letters");
        return Ok(0);
    }
    let mut table = Table::new(&["MESSAGE", "FROM", "WHEN", "WHY"], "WHY", Keep::Start);
    for row in &dead.dead_letters {
        table.row(vec![
            row.message_id.clone().unwrap_or_else(|| "-".to_owned()),
            row.from.clone(),
            human::ago(&row.at),
            row.reason.clone(),
        ]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}
