//! `contacts`: who may write to the agent.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::Fault;
use trl_protocol::agent::CallerParams;
use trl_protocol::contact::{ContactList, ContactParams, ContactRow};

use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct Contacts;

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    #[default]
    List,
    Request,
    Accept,
    Decline,
    Block,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Default: list
    #[serde(default)]
    action: Action,
    /// Name or address; not with list
    #[serde(default)]
    who: Option<String>,
}

impl Spec for Contacts {
    const NAME: &'static str = "contacts";
    const ABOUT: &'static str = "List contacts, or ask, accept, decline or block one. Agents of other machines need to be contacts before mail passes; accept only whom your user knows.";
    const HINTS: Hints = Hints::Destroys { idempotent: true };
    const OPEN_WORLD: bool = true;
    const NEEDS: &'static [&'static str] = &["contact.list", "agent.use"];
    type Args = Args;
    type Answer = ContactList;

    async fn call(args: Args, call: Call) -> Result<(String, ContactList), Fault> {
        let method = match args.action {
            Action::List => {
                let list: ContactList =
                    call.guest.mail("contact.list", CallerParams::default(), None).await?;
                return Ok((text(&list), list));
            }
            Action::Request => "contact.request",
            Action::Accept => "contact.accept",
            Action::Decline => "contact.decline",
            Action::Block => "contact.block",
        };
        let Some(who) = args.who else { return Err(Fault::invalid("this action needs `who`")) };
        let row: ContactRow = call.guest.mail(method, ContactParams { who, as_token: None }, None).await?;
        let list = ContactList { contacts: vec![row] };
        Ok((text(&list), list))
    }
}

fn text(list: &ContactList) -> String {
    if list.contacts.is_empty() {
        return "(no contacts)".to_owned();
    }
    let line = |row: &ContactRow| format!("{} {} ({})", row.who, row.state.name(), row.address);
    list.contacts.iter().map(line).collect::<Vec<_>>().join("\n")
}
