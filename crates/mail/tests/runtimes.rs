//! Words about runtimes between two daemons: who may send them, what is kept of them, and what a reader sees.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};
use trl_mail::GrantedRuntime;
use trl_mail::envelope::RuntimeWord;
use trl_protocol::agent::Token;
use trl_protocol::{Method as _, methods as m};

use crate::support::{self, Office, START_MS, text};

const TOKEN: &str = "trlg-0123456789abcdef";

/// Two daemons with an agent each: alice here, bob there; and their addresses.
struct Pair {
    here: Office,
    there: Office,
    alice: String,
    bob: String,
}

impl Pair {
    async fn strangers() -> Pair {
        let here = Office::open();
        let there = here.neighbour();
        here.agents(&["alice"]).await;
        there.agents(&["bob"]).await;
        let address = |list: Value| list["agents"][0]["address"].as_str().unwrap().to_owned();
        let alice = address(here.get(0, m::AgentList::NAME, json!({})).await);
        let bob = address(there.get(0, m::AgentList::NAME, json!({})).await);
        Pair { here, there, alice, bob }
    }

    async fn contacts() -> Pair {
        let pair = Pair::strangers().await;
        pair.there.get(1, m::ContactRequest::NAME, json!({"who": pair.alice})).await;
        let state = |state: &'static str| move |list: &Value| list["contacts"][0]["state"] == state;
        let here = || pair.here.get(1, m::ContactList::NAME, json!({}));
        support::until("alice is asked", here, state("asking")).await;
        pair.here.get(1, m::ContactAccept::NAME, json!({"who": pair.bob})).await;
        let there = || pair.there.get(1, m::ContactList::NAME, json!({}));
        support::until("alice has accepted", there, state("accepted")).await;
        pair
    }

    async fn tell(&self, word: RuntimeWord) -> String {
        let told = self.there.mail().tell_of_runtime(
            &self.bob,
            &self.alice,
            "for old daemons".to_owned(),
            word,
            None,
        );
        told.await.unwrap()
    }

    /// Tells the word and returns what alice reads.
    async fn read(&self, word: RuntimeWord) -> Value {
        self.tell(word).await;
        self.here.take(1).await.remove(0)
    }

    async fn granted(&self) -> Vec<GrantedRuntime> {
        self.here.mail().granted_runtimes().all().await.unwrap()
    }
}

fn granted(grant_id: &str, change: impl FnOnce(&mut Value)) -> RuntimeWord {
    let mut word = json!({"say": "granted", "grant_id": grant_id, "url": "https://build1:7700", "token": TOKEN,
        "ca": "PEM", "host": "build1", "profile": "workspace"});
    change(&mut word);
    serde_json::from_value(word).unwrap()
}

#[tokio::test]
async fn a_grant_is_kept_by_name_and_its_reader_sees_a_notice_without_the_token() {
    let mut pair = Pair::contacts().await;
    let message = pair.read(granted("g-1", |_| {})).await;
    let expected = format!(
        "bob ({}) granted you the runtime bob@build1 (isolation workspace). `trl run --on bob@build1 COMMAND` uses it.",
        pair.bob
    );
    assert_eq!(text(&message), expected);
    assert_eq!((&message["from"], &message["auto"]), (&json!("bob"), &json!(true)));
    assert!(!message.to_string().contains(TOKEN));
    let kept = GrantedRuntime {
        name: "bob@build1".to_owned(),
        url: "https://build1:7700".to_owned(),
        token: Token(TOKEN.to_owned()),
        ca: Some("PEM".to_owned()),
        granted_by: pair.bob.clone(),
        grant_id: "g-1".to_owned(),
        expires_at: None,
    };
    assert_eq!(pair.granted().await, std::slice::from_ref(&kept));
    assert!(!format!("{kept:?}").contains(TOKEN), "{kept:?}");
    let word = granted("g-1", |_| {});
    assert!(!format!("{word:?}").contains(TOKEN), "{word:?}");
    // A second one of the same machine has a name of its own; all of it outlives the daemon.
    pair.read(granted("g-2", |_| {})).await;
    pair.here.restart().await;
    let names: Vec<String> = pair.granted().await.into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["bob@build1", "bob@build1-2"]);
}

#[tokio::test]
async fn the_sender_forgets_the_token_when_it_has_arrived() {
    let mut pair = Pair::contacts().await;
    let id = pair.tell(granted("g-1", |_| {})).await;
    pair.here.take(1).await;
    pair.there.reaches(1, &id, "offered").await;
    pair.there.stop().await;
    let path = pair.there.config.dir.join("mail.db");
    let database = rusqlite::Connection::open(path).unwrap();
    let body: Vec<u8> =
        database.query_row("SELECT body FROM outbox WHERE message_id = ?1", [&id], |row| row.get(0)).unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(!body.contains(TOKEN) && body.contains("for old daemons"), "{body}");
}

#[tokio::test]
async fn only_contacts_grant_and_only_who_granted_revokes() {
    let strangers = Pair::strangers().await;
    let told = strangers.there.mail().tell_of_runtime(
        &strangers.bob,
        &strangers.alice,
        "x".to_owned(),
        granted("g-1", |_| {}),
        None,
    );
    assert_eq!(told.await.unwrap_err().code.as_str(), "CONTACT_REQUIRED");
    let parties = strangers.there.mail().parties_of_grant(None, strangers.alice.clone());
    assert_eq!(parties.await.unwrap_err().code.as_str(), "CONTACT_REQUIRED");

    let pair = Pair::contacts().await;
    // One who was a contact and is blocked now: what it still sends is not taken.
    pair.here.get(1, m::ContactBlock::NAME, json!({"who": "bob"})).await;
    let id = pair.tell(granted("g-1", |_| {})).await;
    let status = pair.there.reaches(1, &id, "failed").await;
    assert_eq!((&status["reason"], pair.granted().await.len()), (&json!("blocked"), 0), "{status}");
    pair.here.get(1, m::ContactAccept::NAME, json!({"who": "bob"})).await;

    pair.read(granted("g-1", |_| {})).await;
    pair.here.get(0, m::AgentCreate::NAME, json!({"name": "carol"})).await;
    let list = pair.here.get(0, m::AgentList::NAME, json!({})).await;
    let carol = list["agents"].as_array().unwrap().iter().find(|row| row["agent"] == "carol").unwrap();
    let carol = carol["address"].as_str().unwrap();
    let revoked = |grant_id: &str| RuntimeWord::Revoked { grant_id: grant_id.to_owned() };
    let forged = pair.here.mail().tell_of_runtime(carol, &pair.alice, "x".to_owned(), revoked("g-1"), None);
    forged.await.unwrap();
    assert!(text(&pair.here.take(1).await[0]).contains("carol"));
    assert_eq!(pair.granted().await.len(), 1, "it was not carol's to revoke");
    pair.read(revoked("g-2")).await;
    assert_eq!(pair.granted().await.len(), 1, "that was another grant");
    assert!(text(&pair.read(revoked("g-1")).await).contains("revoked the grant of the runtime bob@build1"));
    assert_eq!(pair.granted().await, []);
}

#[tokio::test]
async fn a_grant_that_cannot_be_used_or_has_expired_is_not_kept() {
    let pair = Pair::contacts().await;
    let set = |field: &'static str, value: Value| granted("g-1", move |word| word[field] = value);
    for word in [
        set("url", json!("http://build1:7700")),
        set("url", json!("file:///etc/passwd")),
        set("token", json!("two words")),
        set("grant_id", json!("../g")),
        set("profile", json!("`workspace`")),
        set("ca", json!("x".repeat(64 * 1024 + 1))),
    ] {
        let message = pair.read(word).await;
        assert!(text(&message).contains("cannot be used"), "{message}");
    }
    let late = pair.read(set("expires_at", json!(START_MS - 1))).await;
    assert!(text(&late).contains("has expired"), "{late}");
    assert_eq!(pair.granted().await, []);
    let hostile = pair.read(set("host", json!("../../x`y\n"))).await;
    assert!(text(&hostile).contains("bob@xy"), "{hostile}");
    // An unknown word leaves the message as it is.
    assert!(serde_json::from_value::<RuntimeWord>(json!({"say": "other"})).is_err());
}

#[tokio::test]
async fn an_expired_grant_is_forgotten_and_whoever_watches_is_told() {
    let pair = Pair::contacts().await;
    pair.read(granted("g-1", |word| word["expires_at"] = json!(START_MS + 60_000))).await;
    let known = pair.granted().await;
    assert!(known[0].expires_at.as_ref().unwrap().ends_with('Z'), "{known:?}");
    pair.here.clock.advance(61_000);
    assert_eq!(pair.granted().await, [], "also before anybody has tidied up");
    pair.here.mail().tick().await.unwrap();
    assert_eq!(pair.here.mail().granted_runtimes().beyond(&known).await.unwrap(), []);
}

#[tokio::test]
async fn the_granting_agent_is_the_one_that_has_the_contact() {
    let pair = Pair::contacts().await;
    let parties = |from: Option<&str>, to: &str| {
        pair.there.mail().parties_of_grant(from.map(str::to_owned), to.to_owned())
    };
    pair.there.get(0, m::AgentCreate::NAME, json!({"name": "aaron"})).await;
    for to in ["alice", pair.alice.as_str()] {
        let found = parties(None, to).await.unwrap();
        assert_eq!((found.from_name.as_str(), found.to_address.as_str()), ("bob", pair.alice.as_str()));
        assert!(!found.is_here);
    }
    assert!(parties(Some("aaron"), &pair.alice).await.is_err(), "alice is no contact of aaron's");
    let own = parties(None, "bob").await.unwrap();
    assert_eq!((own.from_name.as_str(), own.is_here), ("aaron", true), "another one grants, if there is one");
    assert_eq!(parties(None, "alicia").await.unwrap_err().code.as_str(), "AGENT_NOT_FOUND");
}

/// Whoever grants chooses the id, so the same one may come from several.
#[tokio::test]
async fn a_grant_under_the_id_of_anothers_grant_is_one_of_its_own() {
    let office = Office::open();
    office.agents(&["alice", "bob", "carol", "dave"]).await;
    let addresses = office.get(0, m::AgentList::NAME, json!({})).await;
    let address = |name: &str| {
        let all = addresses["agents"].as_array().unwrap();
        all.iter().find(|row| row["agent"] == name).unwrap()["address"].as_str().unwrap().to_owned()
    };
    let mut expected = Vec::new();
    for (from, to, reader, name, token) in [
        ("carol", "alice", 1, "carol@build1", "carols-to-alice"),
        ("dave", "alice", 1, "dave@build1", "daves-to-alice"),
        ("carol", "bob", 2, "carol@build1-2", "carols-to-bob"),
    ] {
        let word = granted("g-1", |word| word["token"] = json!(token));
        let (grants, is_granted) = (address(from), address(to));
        let told = office.mail().tell_of_runtime(&grants, &is_granted, "x".to_owned(), word, None);
        told.await.unwrap();
        assert!(text(&office.take(reader).await[0]).contains(&format!("the runtime {name} ")));
        expected.push((name.to_owned(), token.to_owned(), address(from)));
    }
    expected.sort();
    let kept = office.mail().granted_runtimes().all().await.unwrap();
    let kept: Vec<_> = kept.into_iter().map(|it| (it.name, it.token.0, it.granted_by)).collect();
    assert_eq!(kept, expected);
}
