//! Mail between agents: what other programs of this kind call these tools, they are called here too.

mod assign;
mod autorespond;
mod contacts;
mod inbox;
mod replies;
mod send;
mod who;

use crate::toolbox::Entry;

pub(crate) fn all() -> Vec<Entry> {
    vec![
        Entry::of::<send::Send>(),
        Entry::of::<inbox::Inbox>(),
        Entry::of::<who::Use>(),
        Entry::of::<who::Whoami>(),
        Entry::of::<who::Sessions>(),
        Entry::of::<assign::Assign>(),
        Entry::of::<assign::Unassign>(),
        Entry::of::<assign::Assignments>(),
        Entry::of::<who::Reset>(),
        Entry::of::<send::SendAndWait>(),
        Entry::of::<send::AutoReply>(),
        Entry::of::<replies::CheckReply>(),
        Entry::of::<replies::AwaitReply>(),
        Entry::of::<contacts::Contacts>(),
        Entry::of::<autorespond::Autorespond>(),
    ]
}
