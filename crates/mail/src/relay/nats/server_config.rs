//! The broker's config: users in an account of their own, each with what it needs and no more.
//!
//! Nobody may create consumers, use `allow_responses` or read with direct gets: each of
//! these lets a member have bytes of its choice delivered to any subject, and so into
//! another's mailbox under a third one's name.

use std::fmt::Write as _;

use super::names;
use crate::identity::Address;

/// A user that speaks for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub address: Address,
    /// Told in a comment only.
    pub name: String,
    pub public_key: String,
}

/// What one user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) publish: Vec<String>,
    pub(crate) subscribe: Vec<String>,
}

pub(crate) fn of_member(member: &Member) -> Rights {
    let who = member.address.as_str();
    let mailbox = names::mailbox_stream(who);
    Rights {
        publish: vec![
            names::mailbox_subject("*", who),
            names::directory_subject(who),
            names::USED_KEYS_SUBJECTS.to_owned(),
            names::presence_subject("*", who),
            names::presence_answer("*", who),
            format!("$JS.API.STREAM.INFO.{}", names::DIRECTORY),
            format!("$JS.API.STREAM.INFO.{}", names::USED_KEYS),
            format!("$JS.API.STREAM.INFO.{mailbox}"),
            format!("$JS.API.STREAM.MSG.GET.{}", names::DIRECTORY),
            format!("$JS.API.STREAM.MSG.GET.{mailbox}"),
            format!("$JS.API.STREAM.PURGE.{mailbox}"),
        ],
        subscribe: vec![
            names::bell_subjects(who),
            names::presence_subject(who, "*"),
            names::presence_answer(who, "*"),
            inbox(&member.public_key),
        ],
    }
}

/// Makes and changes streams; cannot read what is in them.
pub(crate) fn of_admin(public_key: &str) -> Rights {
    let verbs = ["CREATE", "UPDATE", "INFO", "DELETE"];
    Rights {
        publish: verbs.iter().map(|verb| format!("$JS.API.STREAM.{verb}.*")).collect(),
        subscribe: vec![inbox(public_key)],
    }
}

fn inbox(public_key: &str) -> String {
    format!("{}.>", names::inbox_prefix(public_key))
}

/// To be included in the config of `nats-server`.
pub fn written(admin: &str, members: &[Member]) -> String {
    let mut text = String::from(
        "# Made by `trl relay init`. Include it in the config of nats-server, which must have no other\n\
         # users outside accounts and no `no_auth_user`: whoever has no key here is refused.\n\
         accounts {\n  TRL {\n    jetstream: enabled\n    users: [\n",
    );
    add(
        &mut text,
        "the administrator: makes mailboxes, cannot read what is in them",
        admin,
        &of_admin(admin),
    );
    for member in members {
        let about = format!("{} {}", member.name, member.address);
        add(&mut text, &about, &member.public_key, &of_member(member));
    }
    text.push_str("    ]\n  }\n}\n");
    text
}

fn add(text: &mut String, about: &str, key: &str, rights: &Rights) {
    let list = |subjects: &[String]| {
        subjects.iter().map(|subject| format!("\"{subject}\"")).collect::<Vec<_>>().join(", ")
    };
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "      # {about}\n      {{ nkey: {key}, permissions: {{\n        publish: {{ allow: [{}] }}\n        \
         subscribe: {{ allow: [{}] }}\n      }} }}\n",
        list(&rights.publish),
        list(&rights.subscribe)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_gets_its_own_and_nothing_that_forges() {
        let who = Address::parse(&"a".repeat(32)).unwrap();
        let member = Member { address: who.clone(), name: "alice".into(), public_key: "UX".into() };
        let rights = of_member(&member);
        let text = written("UADMIN", &[member]);
        for subject in rights.publish.iter().chain(&rights.subscribe) {
            assert!(!["*", ">", "$JS.>", "$JS.API.>", "_INBOX.>"].contains(&subject.as_str()));
            assert!(!subject.contains("CONSUMER") && !subject.contains("DIRECT"), "{subject}");
            assert!(text.contains(&format!("\"{subject}\"")));
        }
        assert!(!text.contains("allow_responses") && text.contains(&format!("trl.mbox.*.{who}")));
    }
}
