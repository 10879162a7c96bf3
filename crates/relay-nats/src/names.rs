//! What things are called on the broker. The permissions of an agent are made of these too.

use sha2::{Digest, Sha256};

use trl_mail::identity::Address;

/// Public keys: one entry for each address.
pub(crate) const DIRECTORY: &str = "TRL_DIR";
pub(crate) const DIRECTORY_SUBJECTS: &str = "trl.dir.*";
/// One mark for each one-time key that was given away.
pub(crate) const USED_KEYS: &str = "TRL_USED";
pub(crate) const USED_KEYS_SUBJECTS: &str = "trl.used.*.*";

pub(crate) fn mailbox_stream(who: &str) -> String {
    format!("TRL_MBOX_{who}")
}

pub(crate) fn mailbox_subjects(who: &str) -> String {
    format!("trl.mbox.{who}.*")
}

/// The broker lets nobody but `from` publish here.
pub(crate) fn mailbox_subject(to: &str, from: &str) -> String {
    format!("trl.mbox.{to}.{from}")
}

/// The broker rings here when it has stored something in the mailbox.
pub(crate) fn bell_subjects(who: &str) -> String {
    format!("trl.bell.{who}.*")
}

pub(crate) fn bell_target(who: &str) -> String {
    format!("trl.bell.{who}.{{{{wildcard(1)}}}}")
}

pub(crate) fn directory_subject(who: &str) -> String {
    format!("trl.dir.{who}")
}

/// A key's id is its owner's word, so only a hash of it gets into a subject.
pub(crate) fn used_key_subject(who: &str, key: &str) -> String {
    format!("trl.used.{who}.{}", hex(&Sha256::digest(key.as_bytes())[..16]))
}

pub(crate) fn used_keys_of(who: &str) -> String {
    format!("trl.used.{who}.*")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// "Which sessions of `who` are live?", asked by `from`.
pub(crate) fn presence_subject(who: &str, from: &str) -> String {
    format!("trl.who.{who}.{from}")
}

/// Where `who` answers `from`.
pub(crate) fn presence_answer(from: &str, who: &str) -> String {
    format!("trl.here.{from}.{who}")
}

/// Questions and answers about presence go through this stream, which republishes and keeps nothing.
pub(crate) const PRESENCE: &str = "TRL_PRESENCE";
pub(crate) const PRESENCE_SUBJECTS: [&str; 2] = ["trl.who.*.*", "trl.here.*.*"];
pub(crate) const PRESENCE_SOURCE: &str = "trl.*.*.*";
pub(crate) const PRESENCE_TARGET: &str = "trl.live.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}";

/// Where `who` hears questions (`kind` is `who`) or answers (`here`), and `from` whom.
pub(crate) fn live_subject(kind: &str, who: &str, from: &str) -> String {
    format!("trl.live.{kind}.{who}.{from}")
}

pub(crate) fn live_subjects(kind: &str, who: &str) -> String {
    live_subject(kind, who, "*")
}

/// Nobody answers here; a member's `$JS.API.INFO` leads to it.
pub(crate) const NOTHING: &str = "trl.nothing";
/// Totals of the server, as its system account and as a member know them.
pub(crate) const SYSTEM_STATISTICS: &str = "$SYS.REQ.SERVER.PING.STATSZ";
pub(crate) const SERVER_STATISTICS: &str = "trl.statistics";

/// Each user has replies of its own, so that no one can listen to another's.
pub(crate) fn inbox_prefix(public_key: &str) -> String {
    format!("_INBOX_{public_key}")
}

/// Who sent what lies under this subject of `to`'s mailbox.
pub(crate) fn sender_of(to: &Address, subject: &str) -> Option<Address> {
    let mine = mailbox_subject(to.as_str(), "");
    Address::parse(subject.strip_prefix(&mine)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_read_from_its_own_subject_only() {
        let to = Address::parse(&"a".repeat(32)).unwrap();
        let from = "b".repeat(32);
        let subject = mailbox_subject(to.as_str(), &from);
        assert_eq!(sender_of(&to, &subject).unwrap().as_str(), from);
        for other in ["", "trl.mbox.x.y", &format!("{subject}.c"), &mailbox_subject(&from, &from)] {
            assert_eq!(sender_of(&to, other), None, "{other}");
        }
        assert_eq!(bell_target("x"), "trl.bell.x.{{wildcard(1)}}");
    }

    #[test]
    fn a_keys_id_cannot_shape_a_subject() {
        let subject = used_key_subject("a", "1.*.> \r\nPUB");
        assert!(subject.starts_with("trl.used.a.") && subject.len() == "trl.used.a.".len() + 32, "{subject}");
    }
}
