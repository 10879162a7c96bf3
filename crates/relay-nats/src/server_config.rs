//! The broker's config: one account for each member, and JetStream in an account that no member is in.
//!
//! JetStream answers on whatever reply subject a request names, without asking whether its sender may
//! publish there. So a member must not share an account with JetStream: it could have the answer to a request
//! that it may make delivered as a request that it may not make. Here a member reaches JetStream through
//! service imports only. An answer then returns into the member's own account, where every subject that leads
//! anywhere is something that this member may do anyway (`docs/decisions/0030-one-account-per-member.md`).
//!
//! The position of the account's name in an exported subject is checked by the broker: whoever imports
//! `trl.mbox.*.X` must be the account `X`, so a sender cannot be forged by a mistake in an import either.

use std::fmt::Write as _;

use trl_mail::identity::Address;

use super::names;

/// A user that speaks for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub address: Address,
    /// Written into a comment only.
    pub name: String,
    pub public_key: String,
}

/// What one user may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) publish: Vec<String>,
    pub(crate) subscribe: Vec<String>,
}

/// What a member reaches in the account that has JetStream.
pub(crate) fn services_of(who: &str) -> Vec<String> {
    let mailbox = names::mailbox_stream(who);
    vec![
        names::mailbox_subject("*", who),
        names::directory_subject(who),
        names::USED_KEYS_SUBJECTS.to_owned(),
        names::presence_subject("*", who),
        names::presence_answer("*", who),
        format!("$JS.API.STREAM.INFO.{}", names::DIRECTORY),
        format!("$JS.API.STREAM.INFO.{}", names::USED_KEYS),
        format!("$JS.API.STREAM.INFO.{}", names::PRESENCE),
        format!("$JS.API.STREAM.INFO.{mailbox}"),
        format!("$JS.API.STREAM.MSG.GET.{}", names::DIRECTORY),
        format!("$JS.API.STREAM.MSG.GET.{mailbox}"),
        format!("$JS.API.STREAM.PURGE.{mailbox}"),
    ]
}

/// What a member hears from there.
pub(crate) fn streams_of(who: &str) -> Vec<String> {
    vec![names::bell_subjects(who), names::live_subjects("*", who)]
}

pub(crate) fn of_member(member: &Member) -> Rights {
    let who = member.address.as_str();
    let mut publish = services_of(who);
    publish.push(names::SERVER_STATISTICS.to_owned());
    let mut subscribe = streams_of(who);
    subscribe.push(inbox(&member.public_key));
    Rights { publish, subscribe }
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
    let all: Vec<&str> = members.iter().map(|member| member.address.as_str()).collect();
    let mut text = String::from(
        "# Made by `trl relay init`. Include it in the config of nats-server, which must have no other users\n\
         # outside accounts, no `no_auth_user`, and no other account with JetStream. After a change, reload\n\
         # the broker twice: the imports of an account that is new work from the second reload on.\n\
         accounts {\n",
    );
    add_jetstream_account(&mut text, admin, &all);
    add_system_account(&mut text, &all);
    for member in members {
        add_member_account(&mut text, member);
    }
    text.push_str("}\n");
    text
}

/// Exports whose subject has the name of the importing account at this place, counted from 1.
const BY_ACCOUNT: &[(&str, &str, u8)] = &[
    ("service", "trl.mbox.*.*", 4),
    ("service", "trl.dir.*", 3),
    ("service", "trl.who.*.*", 4),
    ("service", "trl.here.*.*", 4),
    ("stream", "trl.bell.*.*", 3),
    ("stream", "trl.live.*.*.*", 4),
];

/// Exports that every member may import, as far as its own imports go.
const FOR_ALL: &[&str] = &[
    names::USED_KEYS_SUBJECTS,
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.STREAM.PURGE.*",
];

/// An answer that takes longer finds its way back closed.
const THRESHOLD: &str = "response_threshold: \"5s\"";

fn add_jetstream_account(text: &mut String, admin: &str, all: &[&str]) {
    let all = quoted(all.iter().copied());
    text.push_str("  TRL {\n    jetstream: enabled\n    exports: [\n");
    for (kind, subject, place) in BY_ACCOUNT {
        let more = if *kind == "service" { format!(", {THRESHOLD}") } else { String::new() };
        line(text, &format!("      {{ {kind}: \"{subject}\", account_token_position: {place}{more} }}"));
    }
    line(text, &format!("      {{ service: \"{}\", accounts: [{all}] }}", names::NOTHING));
    for subject in FOR_ALL {
        line(text, &format!("      {{ service: \"{subject}\", accounts: [{all}], {THRESHOLD} }}"));
    }
    text.push_str(
        "    ]\n    users: [\n      # the administrator: makes mailboxes, cannot read what is in them\n",
    );
    add_user(text, admin, &of_admin(admin));
    text.push_str("    ]\n  }\n");
}

/// Totals of the server, by which a member notices that a second account has JetStream.
fn add_system_account(text: &mut String, all: &[&str]) {
    let all = quoted(all.iter().copied());
    line(
        text,
        &format!(
            "  $SYS {{ exports: [{{ service: \"{}\", accounts: [{all}] }}] }}",
            names::SYSTEM_STATISTICS
        ),
    );
}

fn add_member_account(text: &mut String, member: &Member) {
    let who = member.address.as_str();
    line(text, &format!("  # {}", member.name));
    line(text, &format!("  \"{who}\" {{\n    imports: ["));
    let from = |kind: &str, account: &str, subject: &str| {
        format!("      {{ {kind}: {{ account: {account}, subject: \"{subject}\" }}")
    };
    // Else the broker itself answers in the member's account that there is no JetStream.
    line(text, &format!("{}, to: \"$JS.API.INFO\" }}", from("service", "TRL", names::NOTHING)));
    for subject in services_of(who) {
        line(text, &format!("{} }}", from("service", "TRL", &subject)));
    }
    for subject in streams_of(who) {
        line(text, &format!("{} }}", from("stream", "TRL", &subject)));
    }
    let statistics = from("service", "\"$SYS\"", names::SYSTEM_STATISTICS);
    line(text, &format!("{statistics}, to: \"{}\" }}", names::SERVER_STATISTICS));
    text.push_str("    ]\n    users: [\n");
    add_user(text, &member.public_key, &of_member(member));
    text.push_str("    ]\n  }\n");
}

fn add_user(text: &mut String, key: &str, rights: &Rights) {
    let list = |subjects: &[String]| quoted(subjects.iter().map(String::as_str));
    line(text, &format!("      {{ nkey: {key}, permissions: {{"));
    line(text, &format!("        publish: {{ allow: [{}] }}", list(&rights.publish)));
    line(text, &format!("        subscribe: {{ allow: [{}] }}\n      }} }}", list(&rights.subscribe)));
}

fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(letter: &str) -> Member {
        let address = Address::parse(&letter.repeat(32)).unwrap();
        Member { address, name: "alice".into(), public_key: format!("U{letter}") }
    }

    #[test]
    fn a_member_gets_its_own_and_nothing_that_forges() {
        let alice = member("a");
        let who = alice.address.clone();
        let rights = of_member(&alice);
        let text = written("UADMIN", &[alice]);
        for subject in rights.publish.iter().chain(&rights.subscribe) {
            assert!(!["*", ">", "$JS.>", "$JS.API.>", "_INBOX.>"].contains(&subject.as_str()));
            assert!(!subject.contains("CONSUMER") && !subject.contains("DIRECT"), "{subject}");
            assert!(text.contains(&format!("\"{subject}\"")));
        }
        assert!(!text.contains("allow_responses") && text.contains(&format!("trl.mbox.*.{who}")));
    }

    /// What the whole layout rests on.
    #[test]
    fn no_member_is_in_the_account_that_has_jetstream() {
        let text = written("UADMIN", &[member("a"), member("b")]);
        assert_eq!(text.matches("jetstream: enabled").count(), 1);
        let start = text.find("  TRL {").unwrap();
        let account = &text[start..start + text[start..].find("\n  }\n").unwrap()];
        assert!(account.contains("nkey: UADMIN") && account.matches("nkey:").count() == 1, "{account}");
        for (kind, subject, place) in BY_ACCOUNT {
            let tokens: Vec<&str> = subject.split('.').collect();
            assert_eq!(tokens[usize::from(*place) - 1], "*", "{kind} {subject}");
        }
    }
}
