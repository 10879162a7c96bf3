//! What a member with only its own key can do to others through reply subjects: nothing.
//!
//! JetStream answers on any reply subject without asking whether the sender may publish there. Each attack is
//! also tried on a broker with the former layout, where it does harm: so it is known to be an attack.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use crate::support::{Layout, Member, Site};
use async_nats::HeaderMap;
use serde_json::{Value, json};
use trl_relay_nats::Quota;

const SENDER_QUOTA: i64 = 20;

/// Alice has a message of Carol's and an entry in the directory, as Carol has; Bob attacks.
struct Scene {
    site: Site,
    alice: Member,
    bob: Member,
    carol: Member,
}

impl Scene {
    async fn new(layout: Layout) -> Scene {
        let quota = Quota { parcels_per_sender: Some(SENDER_QUOTA), ..Quota::default() };
        let site = Site::new(layout, quota).await;
        let (alice, bob, carol) = (site.connect(0).await, site.connect(1).await, site.connect(2).await);
        for member in [&alice, &bob, &carol] {
            member.store(format!("trl.dir.{}", member.address), "an entry").await;
            member.store(format!("trl.used.{}.0", member.address), "").await;
        }
        carol.store(format!("trl.mbox.{}.{}", alice.address, carol.address), "from carol").await;
        bob.store(format!("trl.mbox.{0}.{0}", bob.address), "from bob").await;
        Scene { site, alice, bob, carol }
    }

    /// Everything that belongs to Alice or Carol, or to all.
    async fn belongings(&self) -> Value {
        let (alice, carol) = (&self.alice, &self.carol);
        let mut mailbox = alice.mailbox().await;
        // What Bob sends in his own name is his to send.
        if let Some(subjects) = mailbox.as_object_mut() {
            subjects.remove(&format!("trl.mbox.{}.{}", alice.address, self.bob.address));
        }
        let config = |info: Value| info["config"].clone();
        json!({
            "mailbox": mailbox,
            "carol's mailbox": carol.mailbox().await,
            "entries": [alice.directory_entry(&alice.address).await, alice.directory_entry(&carol.address).await],
            "marks": alice.api("INFO.TRL_USED", json!({"subjects_filter": format!("trl.used.{}.0", alice.address)})).await["state"]["subjects"],
            "configs": [
                config(alice.api("INFO.TRL_DIR", json!({})).await),
                config(alice.api("INFO.TRL_USED", json!({})).await),
                config(alice.api(&format!("INFO.TRL_MBOX_{}", alice.address), json!({})).await),
            ],
        })
    }

    /// Subjects that Bob may publish to, and that are answered.
    fn sources(&self) -> Vec<(String, String)> {
        let (alice, bob) = (&self.alice.address, &self.bob.address);
        let entry = json!({ "last_by_subj": format!("trl.dir.{alice}") }).to_string();
        let own = json!({ "last_by_subj": format!("trl.mbox.{bob}.{bob}") }).to_string();
        let api = |call: String| format!("$JS.API.STREAM.{call}");
        vec![
            (format!("trl.mbox.{alice}.{bob}"), "mail".to_owned()),
            (format!("trl.mbox.{bob}.{bob}"), "mail".to_owned()),
            (format!("trl.dir.{bob}"), "an entry".to_owned()),
            (format!("trl.used.{bob}.1"), String::new()),
            (format!("trl.who.{alice}.{bob}"), String::new()),
            (format!("trl.here.{alice}.{bob}"), String::new()),
            (api("INFO.TRL_DIR".to_owned()), "{}".to_owned()),
            (api("INFO.TRL_USED".to_owned()), "{}".to_owned()),
            (api("INFO.TRL_PRESENCE".to_owned()), "{}".to_owned()),
            (api(format!("INFO.TRL_MBOX_{bob}")), "{}".to_owned()),
            (api("MSG.GET.TRL_DIR".to_owned()), entry),
            (api(format!("MSG.GET.TRL_MBOX_{bob}")), own),
            (api(format!("PURGE.TRL_MBOX_{bob}")), json!({ "filter": "trl.mbox.none.none" }).to_string()),
            ("$JS.API.INFO".to_owned(), String::new()),
            ("trl.statistics".to_owned(), String::new()),
        ]
    }

    /// Subjects that Bob may not publish to.
    fn targets(&self) -> Vec<String> {
        let (alice, bob, carol) = (&self.alice.address, &self.bob.address, &self.carol.address);
        let mut targets: Vec<String> = [
            "PURGE",
            "DELETE",
            "UPDATE",
            "CREATE",
            "MSG.GET",
            "MSG.DELETE",
            "SNAPSHOT",
            "RESTORE",
            "INFO",
            "PEER.REMOVE",
            "LEADER.STEPDOWN",
        ]
        .iter()
        .flat_map(|verb| {
            ["TRL_DIR", "TRL_USED", "TRL_PRESENCE", &format!("TRL_MBOX_{alice}")]
                .map(|stream| format!("$JS.API.STREAM.{verb}.{stream}"))
        })
        .filter(|target| !self.sources().iter().any(|(source, _)| source == target))
        .collect();
        targets.extend([
            format!("$JS.API.CONSUMER.CREATE.TRL_MBOX_{alice}"),
            format!("$JS.API.CONSUMER.DURABLE.CREATE.TRL_MBOX_{alice}.x"),
            format!("$JS.API.DIRECT.GET.TRL_MBOX_{alice}"),
            format!("trl.dir.{alice}"),
            format!("trl.dir.{carol}"),
            format!("trl.mbox.{alice}.{carol}"),
            format!("trl.mbox.{alice}.{alice}"),
            format!("trl.mbox.{carol}.{alice}"),
            format!("trl.bell.{alice}.{carol}"),
            format!("trl.who.{alice}.{carol}"),
            format!("trl.here.{alice}.{carol}"),
            format!("trl.live.here.{alice}.{carol}"),
            format!("_INBOX_{}.forged", self.alice.key),
            format!("trl.mbox.{bob}.{alice}"),
        ]);
        targets
    }

    async fn publish(&self, (subject, body): &(String, String), reply: &str, headers: Option<&HeaderMap>) {
        let (subject, reply, body) = (subject.clone(), reply.to_owned(), body.clone().into());
        let published = match headers {
            None => self.bob.client.publish_with_reply(subject, reply, body).await,
            Some(headers) => {
                self.bob.client.publish_with_reply_and_headers(subject, reply, headers.clone(), body).await
            }
        };
        published.unwrap();
    }

    /// Until the broker has worked off what was published: it answers each of these in turn.
    async fn settle(&self) {
        self.bob.client.flush().await.unwrap();
        for _ in 0..10 {
            self.bob.api("INFO.TRL_DIR", json!({})).await;
            self.alice.api(&format!("INFO.TRL_MBOX_{}", self.alice.address), json!({})).await;
        }
    }

    /// Whether anything changes that is not Bob's, before long.
    async fn is_harmed_since(&self, before: &Value) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            self.settle().await;
            if self.belongings().await != *before {
                return true;
            }
        }
        false
    }
}

/// The four attacks that were found, each against a fresh broker.
fn known_attacks(scene: &Scene) -> Vec<(&'static str, (String, String), String, usize)> {
    let (alice, bob, carol) = (&scene.alice.address, &scene.bob.address, &scene.carol.address);
    let mail = (format!("trl.mbox.{alice}.{bob}"), "x".to_owned());
    let info = ("$JS.API.STREAM.INFO.TRL_DIR".to_owned(), "{}".to_owned());
    let get = (
        "$JS.API.STREAM.MSG.GET.TRL_DIR".to_owned(),
        json!({ "last_by_subj": format!("trl.dir.{alice}") }).to_string(),
    );
    let many = usize::try_from(SENDER_QUOTA).unwrap() + 5;
    vec![
        ("another's mailbox is purged", mail.clone(), format!("$JS.API.STREAM.PURGE.TRL_MBOX_{alice}"), 1),
        ("the directory is purged", mail, "$JS.API.STREAM.PURGE.TRL_DIR".to_owned(), 1),
        ("another's entry is overwritten", info, format!("trl.dir.{alice}"), 1),
        ("another's quota is filled", get, format!("trl.mbox.{alice}.{carol}"), many),
    ]
}

#[tokio::test]
async fn the_known_attacks_did_harm_in_the_former_layout() {
    for n in 0..4 {
        let scene = Scene::new(Layout::OneAccountForAll).await;
        let before = scene.belongings().await;
        let (what, source, target, times) = known_attacks(&scene).swap_remove(n);
        for _ in 0..times {
            scene.publish(&source, &target, None).await;
        }
        assert!(scene.is_harmed_since(&before).await, "{what}: no attack after all");
    }
}

#[tokio::test]
async fn the_known_attacks_do_nothing() {
    let scene = Scene::new(Layout::OneAccountEach).await;
    let before = scene.belongings().await;
    for (what, source, target, times) in known_attacks(&scene) {
        for _ in 0..times {
            scene.publish(&source, &target, None).await;
        }
        scene.settle().await;
        assert_eq!(scene.belongings().await, before, "{what}");
    }
    // Carol's next message is taken: nobody used her place in the mailbox.
    let subject = format!("trl.mbox.{}.{}", scene.alice.address, scene.carol.address);
    let answer = scene.carol.store(subject, "again").await;
    assert!(answer["error"].is_null(), "{answer}");
}

/// Every answered request with every reply subject that matters, plain and with headers that the server
/// itself uses between accounts.
#[tokio::test]
async fn no_reply_subject_of_any_request_does_harm() {
    let scene = Scene::new(Layout::OneAccountEach).await;
    let (alice, carol) = (&scene.alice.address, &scene.carol.address);
    let mut inbox = scene.alice.client.subscribe(format!("_INBOX_{}.forged", scene.alice.key)).await.unwrap();
    let mut live = scene.alice.client.subscribe(format!("trl.live.*.{alice}.{carol}")).await.unwrap();
    let mut bells = scene.alice.client.subscribe(format!("trl.bell.{alice}.{carol}")).await.unwrap();
    scene.alice.client.flush().await.unwrap();
    let mut forged = HeaderMap::new();
    for account in ["TRL", alice] {
        forged.append("Nats-Request-Info", json!({ "acc": account, "svc": account }).to_string());
    }
    forged.insert("Nats-Rollup", "all");
    let before = scene.belongings().await;
    let (sources, targets) = (scene.sources(), scene.targets());
    assert!(sources.len() * targets.len() > 600, "{} x {}", sources.len(), targets.len());
    for source in &sources {
        for target in &targets {
            scene.publish(source, target, None).await;
            scene.publish(source, target, Some(&forged)).await;
        }
        scene.settle().await;
        assert_eq!(scene.belongings().await, before, "{source:?}");
    }
    use futures_util::FutureExt as _;
    use futures_util::StreamExt as _;
    for (what, heard) in [("inbox", &mut inbox), ("presence", &mut live), ("bell", &mut bells)] {
        let heard = heard.next().now_or_never().flatten();
        assert!(heard.is_none(), "Alice hears what nobody sent her ({what}): {heard:?}");
    }
    drop(scene.site);
}
