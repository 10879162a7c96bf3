//! HTTP over TLS, as a client sees it that knows nothing of us but the certificate.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use trl_testkit::{Builder, Daemon, trl};

struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate that signs itself, for this machine.
fn pair(dir: &Path, name: &str) -> Pair {
    let (certificate, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Pair { certificate, key }
}

fn serving(pair: &Pair) -> Builder {
    let builder = Daemon::builder(trl!()).http();
    builder.arg("--http-tls-cert").arg(&pair.certificate).arg("--http-tls-key").arg(&pair.key)
}

fn curl(arguments: &[&str]) -> Output {
    Command::new("curl").args(["-sS", "--max-time", "60"]).args(arguments).output().unwrap()
}

#[test]
fn a_client_that_knows_the_certificate_is_served_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let pair = pair(dir.path(), "ours");
    let daemon = serving(&pair).start();
    let http = daemon.http();
    let port = http.address.port();
    let root = pair.certificate.to_str().unwrap();
    let token = format!("Authorization: Bearer {}", http.token);

    let health = curl(&["--cacert", root, &format!("https://localhost:{port}/healthz")]);
    assert_eq!(String::from_utf8_lossy(&health.stdout), "{\"ok\":true}\n", "{health:?}");
    let create = r#"{"id":1,"method":"session.create","params":{"name":"s","shell":"sh"}}"#;
    let url = format!("https://127.0.0.1:{port}/v1/rpc");
    let created = curl(&["--cacert", root, "-H", &token, "-d", create, &url]);
    assert!(String::from_utf8_lossy(&created.stdout).starts_with(r#"{"id":1,"ok":true"#), "{created:?}");
    let stream = r#"{"id":2,"method":"exec.stream","params":{"session_id":"s","command":"echo through"}}"#;
    let events =
        ["--cacert", root, "-N", "-H", "Accept: text/event-stream", "-H", &token, "-d", stream, &url];
    let streamed = curl(&events);
    assert!(String::from_utf8_lossy(&streamed.stdout).contains(r#""text":"through\n""#), "{streamed:?}");
    let older = curl(&["--cacert", root, "--tls-max", "1.2", &format!("https://localhost:{port}/healthz")]);
    assert!(older.status.success(), "{older:?}");

    // A page of this daemon may use it; what was loaded without TLS is no such page.
    let list = r#"{"id":3,"method":"session.list"}"#;
    for (scheme, expected) in [("https", "200"), ("http", "403")] {
        let origin = format!("Origin: {scheme}://127.0.0.1:{port}");
        let status = ["--cacert", root, "-o", "/dev/null", "-w", "%{http_code}"];
        let asked = curl(&[&status[..], &["-H", &token, "-H", &origin, "-d", list, &url]].concat());
        assert_eq!(String::from_utf8_lossy(&asked.stdout), expected, "{origin}: {asked:?}");
    }

    // One that does not trust it stops by itself; one that speaks plainly gets nowhere.
    assert_eq!(curl(&[&format!("https://localhost:{port}/healthz")]).status.code(), Some(60));
    assert!(!curl(&[&format!("http://localhost:{port}/healthz")]).status.success());
    assert!(curl(&["--cacert", root, &format!("https://localhost:{port}/healthz")]).status.success());
}

#[test]
fn a_pair_that_cannot_be_used_is_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (pair(dir.path(), "ours"), pair(dir.path(), "other"));
    let mixed = Pair { certificate: ours.certificate.clone(), key: other.key.clone() };
    let swapped = Pair { certificate: ours.key.clone(), key: ours.certificate.clone() };
    let missing = Pair { certificate: ours.certificate.clone(), key: dir.path().join("none") };
    std::fs::set_permissions(&ours.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (pair, expected) in
        [(&mixed, "cannot be used"), (&swapped, "no certificate"), (&missing, "none"), (&ours, "chmod 600")]
    {
        let mut daemon = serving(pair).prepare();
        let said = daemon
            .command()
            .args(["serve", "--http", "127.0.0.1:0", "--http-tls-cert"])
            .arg(&pair.certificate)
            .arg("--http-tls-key")
            .arg(&pair.key)
            .env("TRL_AUTH_TOKEN", "x")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success() && text.contains(expected), "{expected}: {text}");
        daemon.keep_sessions();
    }
}
