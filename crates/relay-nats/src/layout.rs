//! The streams that a relay consists of, and whether a broker has them as they must be.
//!
//! A broker ignores fields that it does not know, so what was made is read back and compared.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, Republish, RetentionPolicy, StorageType};

use super::names;

/// Bounds of one mailbox, in what the broker counts: parcels, of one packet or many. Those that
/// are not given stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    pub parcels: Option<i64>,
    /// Of these, from one sender: nobody can fill another's mailbox alone.
    pub parcels_per_sender: Option<i64>,
    /// `-1` is no bound; any other is reserved on the broker's disk.
    pub bytes: Option<i64>,
}

/// Bounds of a mailbox that is made without any.
const PARCELS: i64 = 10_000;
const PARCELS_PER_SENDER: i64 = 2_000;

/// How long a key that was given away is remembered; ids are never used again anyway.
const USED_FOR: Duration = Duration::from_secs(90 * 86_400);
/// Publishing again within this time changes nothing; later the reader knows it.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

fn kept(name: String, subjects: String, replicas: usize) -> Config {
    Config {
        name,
        subjects: vec![subjects],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        num_replicas: replicas,
        duplicate_window: DUPLICATE_WINDOW,
        max_messages: -1,
        max_bytes: -1,
        max_messages_per_subject: -1,
        max_message_size: -1,
        max_consumers: -1,
        ..Config::default()
    }
}

pub(crate) fn directory(replicas: usize) -> Config {
    Config {
        discard: DiscardPolicy::Old,
        max_messages_per_subject: 1,
        max_message_size: 256 * 1024,
        ..kept(names::DIRECTORY.to_owned(), names::DIRECTORY_SUBJECTS.to_owned(), replicas)
    }
}

pub(crate) fn used_keys(replicas: usize) -> Config {
    Config {
        discard: DiscardPolicy::Old,
        max_age: USED_FOR,
        max_messages_per_subject: 1,
        max_message_size: 1024,
        ..kept(names::USED_KEYS.to_owned(), names::USED_KEYS_SUBJECTS.to_owned(), replicas)
    }
}

/// Without confirmations: a question that nobody hears within a second is not answered later. In a file all the
/// same, since a broker that is restarted forgets streams that are in memory.
pub(crate) fn presence(replicas: usize) -> Config {
    Config {
        subjects: names::PRESENCE_SUBJECTS.map(str::to_owned).to_vec(),
        discard: DiscardPolicy::Old,
        no_ack: true,
        max_messages: 64,
        max_age: Duration::from_secs(1),
        duplicate_window: Duration::from_secs(1),
        max_message_size: 64 * 1024,
        republish: Some(Republish {
            source: names::PRESENCE_SOURCE.to_owned(),
            destination: names::PRESENCE_TARGET.to_owned(),
            headers_only: false,
        }),
        ..kept(names::PRESENCE.to_owned(), String::new(), replicas)
    }
}

pub(crate) fn mailbox(who: &str, quota: Quota, replicas: usize) -> Config {
    Config {
        max_messages: quota.parcels.unwrap_or(PARCELS),
        max_messages_per_subject: quota.parcels_per_sender.unwrap_or(PARCELS_PER_SENDER),
        discard_new_per_subject: true,
        max_bytes: quota.bytes.unwrap_or(-1),
        republish: Some(Republish {
            source: names::mailbox_subjects(who),
            destination: names::bell_target(who),
            headers_only: false,
        }),
        ..kept(names::mailbox_stream(who), names::mailbox_subjects(who), replicas)
    }
}

/// What differs, in words; quotas and replicas are the administrator's to choose.
pub(crate) fn differences(wanted: &Config, found: &Config) -> Vec<String> {
    let mut differ = Vec::new();
    let mut compare = |what: &str, wanted: String, found: String| {
        if wanted != found {
            differ.push(format!("{what} is {found}, not {wanted}"));
        }
    };
    let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
    compare("subjects", text(&wanted.subjects), text(&found.subjects));
    compare("retention", text(&wanted.retention), text(&found.retention));
    compare("storage", text(&wanted.storage), text(&found.storage));
    compare("discard", text(&wanted.discard), text(&found.discard));
    compare(
        "discard_new_per_subject",
        text(&wanted.discard_new_per_subject),
        text(&found.discard_new_per_subject),
    );
    compare("max_age", text(&wanted.max_age), text(&found.max_age));
    compare("no_ack", text(&wanted.no_ack), text(&found.no_ack));
    compare("republish", text(&wanted.republish), text(&found.republish));
    compare("sealed", text(&wanted.sealed), text(&found.sealed));
    compare("deny_purge", text(&wanted.deny_purge), text(&found.deny_purge));
    compare("allow_rollup", text(&wanted.allow_rollup), text(&found.allow_rollup));
    let mirrors = |config: &Config| text(&(config.mirror.is_some(), config.sources.as_ref().map(Vec::len)));
    compare("mirror and sources", mirrors(wanted), mirrors(found));
    differ
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_stream_is_noticed_and_a_chosen_quota_is_not() {
        let wanted = mailbox("a", Quota::default(), 1);
        let chosen = mailbox("a", Quota { parcels: Some(5), parcels_per_sender: Some(3), bytes: Some(9) }, 3);
        assert_eq!(differences(&wanted, &chosen), Vec::<String>::new());
        let silent = Config { republish: None, retention: RetentionPolicy::WorkQueue, ..wanted.clone() };
        let found = differences(&wanted, &silent);
        assert!(found.len() == 2 && found[0].starts_with("retention"), "{found:?}");
    }
}
