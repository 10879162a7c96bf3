//! A broker with three members, in the layout of today or in that of before.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use serde_json::{Value, json};
use trl_mail::identity::{Address, Identity};
use trl_relay_nats::relay_dir::RelayDir;
use trl_relay_nats::{BrokerConfig, Credentials, Quota, Tls, setup};
use trl_testkit::Broker;

/// All members in the account that has JetStream, each with permissions of its own: as `trl relay init` wrote it
/// before each member had an account.
pub fn one_account_for_all(admin: &str, members: &[(Address, String)]) -> String {
    let list = |subjects: Vec<String>| {
        subjects.iter().map(|subject| format!("\"{subject}\"")).collect::<Vec<_>>().join(", ")
    };
    let user = |key: &str, publish: Vec<String>, mut subscribe: Vec<String>| {
        subscribe.push(format!("_INBOX_{key}.>"));
        let (publish, subscribe) = (list(publish), list(subscribe));
        format!(
            "{{ nkey: {key}, permissions: {{ publish: {{ allow: [{publish}] }}, subscribe: {{ allow: [{subscribe}] }} }} }}\n"
        )
    };
    let verbs = ["CREATE", "UPDATE", "INFO", "DELETE"];
    let mut users =
        user(admin, verbs.iter().map(|verb| format!("$JS.API.STREAM.{verb}.*")).collect(), vec![]);
    for (who, key) in members {
        let mut publish = vec![
            format!("trl.mbox.*.{who}"),
            format!("trl.dir.{who}"),
            "trl.used.*.*".to_owned(),
            format!("trl.who.*.{who}"),
            format!("trl.here.*.{who}"),
        ];
        let api = ["INFO.TRL_DIR", "INFO.TRL_USED", "MSG.GET.TRL_DIR"].map(str::to_owned);
        let own = ["INFO", "MSG.GET", "PURGE"].map(|verb| format!("{verb}.TRL_MBOX_{who}"));
        publish.extend(api.into_iter().chain(own).map(|call| format!("$JS.API.STREAM.{call}")));
        let subscribe =
            vec![format!("trl.bell.{who}.*"), format!("trl.who.{who}.*"), format!("trl.here.{who}.*")];
        users.push_str(&user(key, publish, subscribe));
    }
    format!("accounts {{ TRL {{ jetstream: enabled\n users: [\n{users}] }} }}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    OneAccountForAll,
    OneAccountEach,
}

pub struct Site {
    pub broker: Broker,
    pub relay_dir: RelayDir,
    pub members: Vec<Address>,
}

impl Site {
    pub async fn new(layout: Layout, quota: Quota) -> Site {
        let broker = Broker::prepare();
        let mut relay_dir = RelayDir::open(&broker.dir().join("relay")).unwrap();
        let members: Vec<Address> = (0..3).map(|_| Identity::generate().address().clone()).collect();
        for (name, address) in ["alice", "bob", "carol"].iter().zip(&members) {
            relay_dir.add(name, address).unwrap();
        }
        let mut site = {
            broker.configure("");
            Site { broker, relay_dir, members }
        };
        site.configure(layout, "");
        site.broker.start();
        site.prepare(quota).await;
        site
    }

    pub fn configure(&mut self, layout: Layout, more: &str) {
        let config = match layout {
            Layout::OneAccountEach => self.relay_dir.config(),
            Layout::OneAccountForAll => {
                let members: Vec<_> = self
                    .relay_dir
                    .members()
                    .iter()
                    .map(|m| (m.address.clone(), m.public_key.clone()))
                    .collect();
                one_account_for_all(&public_key(&self.relay_dir.admin_file()), &members)
            }
        };
        std::fs::write(
            self.broker.dir().join("layout.conf"),
            config.replacen("accounts {", &format!("accounts {{ {more}"), 1),
        )
        .unwrap();
        self.broker.configure("include \"layout.conf\"");
    }

    pub async fn prepare(&self, quota: Quota) {
        let config = self.access(Credentials::File(self.relay_dir.admin_file()));
        setup::prepare(&config, &self.members, quota, 1).await.unwrap();
    }

    pub fn access(&self, credentials: Credentials) -> BrokerConfig {
        BrokerConfig { servers: self.broker.url(), credentials, tls: Tls::default() }
    }

    /// As a daemon of all three would use it.
    pub fn keys(&self) -> BrokerConfig {
        self.access(Credentials::Directory(
            self.relay_dir.key_file(&self.members[0]).parent().unwrap().to_owned(),
        ))
    }

    /// A client of its own making that has nothing but one member's key.
    pub async fn connect(&self, n: usize) -> Member {
        let file = self.relay_dir.key_file(&self.members[n]);
        let key = public_key(&file);
        let client = ConnectOptions::new()
            .nkey(seed(&file))
            .custom_inbox_prefix(format!("_INBOX_{key}"))
            .request_timeout(Some(Duration::from_secs(3)))
            .connect(self.broker.url())
            .await
            .unwrap();
        Member { client, address: self.members[n].to_string(), key }
    }
}

pub struct Member {
    pub client: Client,
    pub address: String,
    pub key: String,
}

impl Member {
    /// One call of the JetStream API.
    pub async fn api(&self, call: &str, body: Value) -> Value {
        let subject = format!("$JS.API.STREAM.{call}");
        let answer = self.client.request(subject.clone(), body.to_string().into()).await;
        match answer {
            Ok(message) => serde_json::from_slice(&message.payload).unwrap(),
            Err(error) => json!({ "error": format!("{subject}: {error}") }),
        }
    }

    /// Stores something in a stream and waits for the broker's word.
    pub async fn store(&self, subject: String, body: &str) -> Value {
        let message = self.client.request(subject, body.to_owned().into()).await.unwrap();
        serde_json::from_slice(&message.payload).unwrap()
    }

    /// What lies in this member's mailbox: how many messages under each subject.
    pub async fn mailbox(&self) -> Value {
        let ask = json!({ "subjects_filter": ">" });
        self.api(&format!("INFO.TRL_MBOX_{}", self.address), ask).await["state"]["subjects"].clone()
    }

    pub async fn directory_entry(&self, who: &str) -> Value {
        let found = self.api("MSG.GET.TRL_DIR", json!({ "last_by_subj": format!("trl.dir.{who}") })).await;
        found["message"].clone()
    }
}

fn seed(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().find(|line| line.starts_with("SU")).unwrap().to_owned()
}

fn public_key(file: &Path) -> String {
    nkeys::KeyPair::from_seed(&seed(file)).unwrap().public_key()
}
