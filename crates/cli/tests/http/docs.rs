//! What the papers say of HTTP is what it does: their examples run, and its description of itself
//! holds before tools of others.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use trl_testkit::{Daemon, trl};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_examples_in_the_manual_run() {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    let manual = std::fs::read_to_string(Path::new(ROOT).join("docs/http.md")).unwrap();
    let examples: Vec<&str> =
        manual.split("```sh\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 4, "the manual has examples");
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &examples.join("\n")])
        .env("URL", format!("http://{}", http.address))
        .env("TRL_AUTH_TOKEN", &http.token)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for expected in [
        r#"{"id":1,"ok":true"#,
        r#""stdout":"6\n""#,
        "event: started",
        "event: response",
        r#""text":"ready""#,
        r#""cancelled":true"#,
        "{\"ok\":true}",
        "trl_sessions{state=\"idle\"} 1",
    ] {
        assert!(said.contains(expected), "{expected} is missing in:\n{said}");
    }
}

/// A program that `scripts/test` installs from PyPI.
fn tool(name: &str) -> PathBuf {
    let installed = Path::new(ROOT).join("target/venv/bin").join(name);
    assert!(installed.exists(), "{} is missing; ./scripts/test installs it", installed.display());
    installed
}

fn succeeds(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn the_description_is_valid_openapi() {
    let daemon = Daemon::builder(trl!()).http().start();
    let document = daemon.http().ask("GET", "/openapi.json", &[], b"");
    assert_eq!(document.status, 200);
    let file = daemon.work().join("openapi.json");
    std::fs::write(&file, &document.body).unwrap();
    succeeds(&Command::new(tool("openapi-spec-validator")).arg(&file).output().unwrap());
}

#[test]
fn a_fuzzer_that_reads_the_description_finds_nothing() {
    let daemon =
        Daemon::builder(trl!()).http().env("TRL_MAX_SESSIONS", "4").arg("--tokens").arg("tokens").prepare();
    let tokens = daemon.work().join("tokens");
    // It must not end the daemon that it tries.
    std::fs::write(&tokens, "fuzzer run a-token-for-the-fuzzer-0123\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let daemon = daemon.started();
    let http = daemon.http();
    let output = Command::new(tool("schemathesis"))
        .args(["run", &format!("http://{}/openapi.json", http.address)])
        .args(["--header", "Authorization: Bearer a-token-for-the-fuzzer-0123"])
        // What a schema cannot say (a session that exists, a directory that is there) is refused with 400.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--max-examples", "25", "--seed", "1", "--phases", "coverage,fuzzing"])
        .args(["--max-time", "15", "--request-timeout", "20", "--suppress-health-check", "all"])
        .current_dir(daemon.work())
        .env("HOME", daemon.user_home())
        .output()
        .unwrap();
    succeeds(&output);
    assert_eq!(http.ask("GET", "/healthz", &[], b"").status, 200);
}
