//! The relay between machines, against a real broker.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use trl_mail::relay::conformance;
use trl_relay_nats::{BrokerConfig, Credentials, NatsRelay, Quota, Tls, setup};
use trl_testkit::Broker;

fn open(broker: &Broker) -> BrokerConfig {
    BrokerConfig { servers: broker.url(), credentials: Credentials::None, tls: Tls::default() }
}

#[tokio::test]
async fn the_relay_between_machines_conforms() {
    let broker = Broker::open_to_all();
    setup::prepare(&open(&broker), &[], Quota::default(), 1).await.unwrap();
    let relay = NatsRelay::open(open(&broker), None).unwrap();
    conformance::all(&relay).await.unwrap();
}

/// Certificates that a test needs, valid for a hundred years; the keys are nobody's secret.
fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

fn private(dir: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[tokio::test]
async fn with_tls_both_sides_show_certificates_and_nothing_goes_in_the_clear() {
    let config = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}",
        certificate("server.pem"),
        certificate("server.key"),
        certificate("ca.pem")
    );
    let broker = Broker::with(&config);
    let dir = tempfile::tempdir().unwrap();
    let key = std::fs::read_to_string(certificate("client.key")).unwrap();
    let tls = |mode| Tls {
        ca: Some(certificate("ca.pem")),
        cert: Some(certificate("client.pem")),
        key: Some(private(dir.path(), "client.key", &key, mode)),
    };
    let with =
        |tls| BrokerConfig { servers: broker.url().replace("nats://", "tls://"), tls, ..open(&broker) };
    setup::prepare(&with(tls(0o600)), &[], Quota::default(), 1).await.unwrap();
    let relay = NatsRelay::open(with(tls(0o600)), None).unwrap();
    conformance::directory(&relay).await.unwrap();
    let refused =
        async |config| setup::prepare(&config, &[], Quota::default(), 1).await.unwrap_err().to_string();
    // Without a certificate of ours, or without the authority that vouches for the broker's.
    refused(with(Tls { ca: Some(certificate("ca.pem")), ..Tls::default() })).await;
    refused(with(Tls::default())).await;
    let told = refused(with(tls(0o640))).await;
    assert!(told.contains("chmod 600") && told.contains("client.key"), "{told}");
    let told = refused(with(Tls { cert: Some(certificate("client.pem")), ..Tls::default() })).await;
    assert!(told.contains("both"), "{told}");
    // A broker without TLS gets nothing when TLS was asked for.
    let plain = Broker::open_to_all();
    refused(BrokerConfig {
        servers: plain.url(),
        tls: Tls { ca: Some(certificate("ca.pem")), ..Tls::default() },
        ..open(&plain)
    })
    .await;
}

fn token(claims: &Value, signer: &KeyPair) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), part(claims));
    let signature = signer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test]
async fn a_credentials_file_of_an_operator_lets_in_and_must_be_private() {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let system = KeyPair::new_account();
    let claims = |subject: &KeyPair, issuer: &KeyPair, nats: Value| json!({"jti": "x", "iat": 1_700_000_000, "iss": issuer.public_key(), "sub": subject.public_key(), "name": "t", "nats": nats});
    let limits = json!({"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1,
        "wildcards": true, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1});
    let operator_token =
        token(&claims(&operator, &operator, json!({"type": "operator", "version": 2})), &operator);
    let account_token = |account: &KeyPair, limits: Value| {
        token(
            &claims(account, &operator, json!({"type": "account", "version": 2, "limits": limits})),
            &operator,
        )
    };
    let rights =
        json!({"type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1});
    let user_token = token(&claims(&user, &account, rights), &account);
    let broker = Broker::with(&format!(
        "operator: \"{operator_token}\"\nsystem_account: {}\nresolver: MEMORY\n\
         resolver_preload {{ {}: \"{}\", {}: \"{}\" }}",
        system.public_key(),
        account.public_key(),
        account_token(&account, limits),
        system.public_key(),
        account_token(
            &system,
            json!({"subs": -1, "conn": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1})
        )
    ));
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        user.seed().unwrap()
    );
    let with = |mode| {
        let credentials = Credentials::File(private(dir.path(), "user.creds", &text, mode));
        BrokerConfig { credentials, ..open(&broker) }
    };
    setup::prepare(&with(0o600), &[], Quota::default(), 1).await.unwrap();
    conformance::directory(&NatsRelay::open(with(0o600), None).unwrap()).await.unwrap();
    let told = setup::prepare(&with(0o644), &[], Quota::default(), 1).await.unwrap_err().to_string();
    assert!(told.contains("chmod 600"), "{told}");
    let anonymous = BrokerConfig { credentials: Credentials::None, ..with(0o600) };
    assert!(setup::prepare(&anonymous, &[], Quota::default(), 1).await.is_err());
}
