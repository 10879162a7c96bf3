//! Several callers that use a session's name for the first time at the same moment.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::collections::BTreeSet;
use std::thread;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::daemon;

#[test]
fn callers_that_race_for_a_name_get_the_same_session() {
    let daemon = daemon!();
    for round in 0..3 {
        let name = format!("shared-{round}");
        let pids: Vec<String> = thread::scope(|scope| {
            let callers: Vec<_> =
                (0..12).map(|_| scope.spawn(|| daemon.trl(&["run", "-s", &name, "echo $$"]))).collect();
            let outputs = callers.into_iter().map(|caller| caller.join().unwrap());
            outputs
                .map(|output| {
                    let error = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{error}");
                    String::from_utf8(output.stdout).unwrap()
                })
                .collect()
        });
        assert_eq!(pids.iter().collect::<BTreeSet<_>>().len(), 1, "{pids:?}");
    }
}

#[test]
fn a_name_in_use_has_its_own_code_and_a_session_in_creation_is_waited_for() {
    let daemon = daemon!();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = daemon.connect();
                    let created = connection.call(m::SessionCreate::NAME, json!({"name": "raced"}));
                    if let Err(fault) = &created {
                        assert_eq!(fault["code"], "NAME_TAKEN", "{fault}");
                        assert!(fault["details"]["session_id"].is_string(), "{fault}");
                    }
                    let params = json!({"session_id": "raced", "command": "echo here", "wait_s": 30});
                    assert_eq!(connection.ok(m::ExecRun::NAME, params)["stdout"], "here\n");
                    created.is_ok()
                })
            })
            .collect();
        let created = callers.into_iter().map(|caller| caller.join().unwrap()).filter(|created| *created);
        assert_eq!(created.count(), 1);
    });
}
