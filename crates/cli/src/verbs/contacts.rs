//! `trl contacts`: who may write to an agent.

use trl_protocol::agent::CallerParams;
use trl_protocol::contact::{ContactList, ContactParams};
use trl_protocol::mail::{Reset, ResetParams};
use trl_protocol::methods;
use trl_protocol::quote::inline;

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::identity::Who;
use crate::output;
use crate::table::{Keep, Table};

/// Show contacts and decide who may write to an agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List them; so does `trl contacts` alone
    #[command(visible_alias = "ls")]
    List,
    /// Ask to be a contact
    Request {
        /// A name or an address
        who: String,
    },
    /// Accept their messages
    Accept {
        /// A name or an address
        who: String,
    },
    /// Decline their request
    Decline {
        /// A name or an address
        who: String,
    },
    /// Block their messages
    Block {
        /// A name or an address
        who: String,
    },
    /// Exchange new keys when messages cannot be decrypted; unconfirmed messages are sent again
    Reset {
        /// A name or an address
        who: String,
    },
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut speaks = args.who.speak(&client).await?;
    let params = |who: &str| ContactParams { who: who.to_owned(), as_token: None };
    let row = match &args.action {
        None | Some(Action::List) => {
            let list = speaks.call::<methods::ContactList>(&CallerParams::default()).await?;
            return print(list, context);
        }
        Some(Action::Request { who }) => speaks.call::<methods::ContactRequest>(&params(who)).await?,
        Some(Action::Accept { who }) => speaks.call::<methods::ContactAccept>(&params(who)).await?,
        Some(Action::Decline { who }) => speaks.call::<methods::ContactDecline>(&params(who)).await?,
        Some(Action::Block { who }) => speaks.call::<methods::ContactBlock>(&params(who)).await?,
        Some(Action::Reset { who }) => {
            let params = ResetParams { who: who.clone(), as_token: None };
            let done = speaks.call::<methods::MailReset>(&params).await?;
            return told(&done, context);
        }
    };
    if context.output.json {
        context.output.json(&row)?;
    } else {
        context.output.line(format!("{} {}", inline(&row.who), row.state.name()))?;
    }
    Ok(0)
}

fn told(done: &Reset, context: &Context) -> Result<u8> {
    if context.output.json {
        context.output.json(done)?;
    } else {
        context.output.line(format!(
            "new keys with {}; {} messages sent again",
            inline(&done.who),
            done.resent
        ))?;
    }
    Ok(0)
}

fn print(list: ContactList, context: &Context) -> Result<u8> {
    let output = context.output;
    if output.json {
        output.json(&list)?;
        return Ok(0);
    }
    if list.contacts.is_empty() {
        output::note("no contacts");
        return Ok(0);
    }
    let mut table = Table::new(&["WHO", "STATE", "SINCE", "ADDRESS"], "ADDRESS", Keep::Start);
    for row in list.contacts {
        table.row(vec![row.who, row.state.name().to_owned(), human::ago(&row.since), row.address]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}
