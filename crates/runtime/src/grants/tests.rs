use super::rules::create_params;
use super::*;
use serde_json::json;
use trl_protocol::session::CreateParams;

fn grant(profile: Profile) -> Grant {
    let party = |name: &str| Party { name: name.to_owned(), address: format!("{name}-address") };
    Grant {
        version: 1,
        id: "g-1".to_owned(),
        agent: party("alice"),
        granted_by: party("bob"),
        profile,
        limits: SessionLimits::default(),
        max_sessions: None,
        working_dir: None,
        created_at: 1,
        expires_at: None,
        revoked_at: None,
        token_sha256: token_hash(b"secret"),
        sessions: Vec::new(),
    }
}

fn asked(params: serde_json::Value) -> CreateParams {
    serde_json::from_value(params).unwrap()
}

fn made(grant: &Grant, params: serde_json::Value) -> Result<CreateParams, Fault> {
    create_params(grant, asked(params), 1000)
}

#[test]
fn less_isolation_than_granted_is_refused_and_more_is_not() {
    let workspace = grant(Profile::Workspace);
    for params in [
        json!({"isolation": "none"}),
        json!({"isolation": {"profile": "workspace", "read": ["/home"]}}),
        json!({"isolation": {"profile": "workspace", "write": ["/home"]}}),
        json!({"isolation": {"profile": "workspace", "net": "full"}}),
        json!({"isolation": {"profile": "workspace", "net": {"allow": ["example.org"]}}}),
        json!({"isolation": {"profile": "strict", "root": "/srv"}}),
        json!({"isolation": {"profile": "workspace", "best_effort": true}}),
    ] {
        let fault = made(&workspace, params.clone()).unwrap_err();
        assert_eq!(fault.code, Code::AuthFailed, "{params}");
        for word in ["bob", "bob-address", "g-1", "alice", "\"workspace\" or more"] {
            assert!(fault.message.contains(word), "{word}: {}", fault.message);
        }
        assert_eq!(fault.details.unwrap()["granted_by"], "bob-address");
    }
    assert!(made(&grant(Profile::Strict), json!({"isolation": "workspace"})).is_err());
    let profile = |grant: &Grant, params| made(grant, params).unwrap().isolation.unwrap().profile;
    assert_eq!(profile(&workspace, json!({})), Profile::Workspace);
    assert_eq!(profile(&workspace, json!({"isolation": "strict"})), Profile::Strict);
    let hidden = json!({"isolation": {"profile": "workspace", "hide": ["/etc"]}});
    assert_eq!(profile(&workspace, hidden), Profile::Workspace);
    assert_eq!(profile(&grant(Profile::None), json!({"isolation": "none"})), Profile::None);
    assert_eq!(profile(&grant(Profile::None), json!({})), Profile::None);
}

#[test]
fn each_limit_is_the_granted_one_or_less() {
    let granted = json!({"journal_bytes": 100, "max_commands": 10, "max_queue": 2, "memory": "64M", "pids": 32,
        "cpu": 1.0, "open_files": 64, "file_size": "1M", "cpu_time_s": 10.0, "disk": "1M"});
    let more = json!({"journal_bytes": 101, "max_commands": 11, "max_queue": 3, "memory": "65M", "pids": 33,
        "cpu": 1.5, "open_files": 65, "file_size": "2M", "cpu_time_s": 11.0, "disk": "2M"});
    let limits: SessionLimits = serde_json::from_value(granted.clone()).unwrap();
    let limited = Grant { limits: limits.clone(), ..grant(Profile::Workspace) };
    assert_eq!(made(&limited, json!({})).unwrap().limits, Some(limits.clone()));
    assert_eq!(made(&limited, json!({ "limits": granted })).unwrap().limits, Some(limits));
    for (field, value) in more.as_object().unwrap() {
        let fault = made(&limited, json!({"limits": {field: value}})).unwrap_err();
        assert_eq!(fault.code, Code::AuthFailed);
        assert!(fault.message.contains(field) && fault.message.contains("bob"), "{}", fault.message);
    }
    // What is not granted is free, except for what would be more than sessions get by themselves.
    let free = grant(Profile::Workspace);
    assert_eq!(
        made(&free, json!({"limits": {"memory": "99G"}})).unwrap().limits.unwrap().memory.unwrap().0,
        99 << 30
    );
    for beyond in [json!({"journal_bytes": 1001}), json!({"max_queue": 257}), json!({"disk": "2G"})] {
        assert!(made(&free, json!({ "limits": beyond })).is_err(), "{beyond}");
    }
}

#[test]
fn the_grant_decides_on_the_directory_and_the_runtime() {
    let own = grant(Profile::Workspace);
    let dir =
        |grant: &Grant, params| made(grant, params).map(|params| params.working_dir.unwrap_or_default());
    assert_eq!(dir(&own, json!({})).unwrap(), "/tmp");
    assert_eq!(dir(&own, json!({"working_dir": "/tmp/"})).unwrap(), "/tmp");
    let given = Grant { working_dir: Some("/srv/work".to_owned()), ..own.clone() };
    assert_eq!(dir(&given, json!({})).unwrap(), "/srv/work");
    for other in ["/", "/home/bob", "/srv/work/..", "/srv/work/below", "/tmp/x"] {
        assert!(dir(&own, json!({"working_dir": other})).is_err(), "{other}");
        assert!(dir(&given, json!({"working_dir": other})).is_err(), "{other}");
    }
    assert_eq!(dir(&grant(Profile::None), json!({"working_dir": "/"})).unwrap(), "/");
    for runtime in ["container:debian", "ssh:host", "trl:https://host", "any", "label:gpu", "build1"] {
        let fault = made(&own, json!({ "runtime": runtime })).unwrap_err();
        assert!(fault.message.contains(runtime), "{}", fault.message);
    }
    let kept = made(&own, json!({"runtime": "local", "keep_state": "x", "restore_state": "x"})).unwrap();
    assert_eq!((kept.keep_state, kept.restore_state), (None, None));
}

#[test]
fn a_token_opens_its_grant_until_that_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grants");
    let grants = Grants::load(path.clone());
    grants.add(grant(Profile::Workspace)).unwrap();
    let open = |grants: &Grants| grants.of_token(b"secret").unwrap().map(|key| key.id().to_owned());
    assert_eq!(open(&grants), Ok("g-1".to_owned()));
    for wrong in [&b""[..], b"secre", b"secret ", b"SECRET", token_hash(b"secret").as_bytes()] {
        assert!(grants.of_token(wrong).is_none(), "{wrong:?}");
    }
    let stored = std::fs::read_to_string(path.join("g-1.json")).unwrap();
    assert!(!stored.contains("\"secret\"") && stored.contains(&token_hash(b"secret")), "{stored}");
    grants.revoke("g-1").unwrap();
    for grants in [grants, Grants::load(path)] {
        let fault = open(&grants).unwrap_err();
        assert_eq!(fault.code, Code::AuthFailed);
        assert!(fault.message.contains("revoked") && fault.message.contains("bob"), "{}", fault.message);
        assert!(grants.active(&GrantKey { id: "g-1".into() }).is_err());
    }
    let expired = Grants::load(dir.path().join("others"));
    expired.add(Grant { expires_at: Some(now_ms() - 1), ..grant(Profile::None) }).unwrap();
    assert!(open(&expired).unwrap_err().message.contains("expired"));
    assert!(expired.revoke("g-2").is_err());
}

#[test]
fn sessions_belong_to_the_grant_they_were_created_under_also_for_the_next_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let grants = Grants::load(dir.path().to_owned());
    grants.add(Grant { max_sessions: Some(2), ..grant(Profile::Workspace) }).unwrap();
    let key = grants.of_token(b"secret").unwrap().unwrap();
    let (one, two, three) = (SessionId(1), SessionId(2), SessionId(3));
    grants.claim(one, Some(&key), |_| true).unwrap();
    grants.claim(two, Some(&key), |_| true).unwrap();
    let fault = grants.claim(three, Some(&key), |_| true).unwrap_err();
    assert_eq!(fault.code, Code::MaxSessionsReached);
    assert!(!grants.owns(&key, three) && fault.message.contains("bob"), "{}", fault.message);
    // One that has ended leaves its place.
    grants.claim(three, Some(&key), |id| id != one).unwrap();
    let grants = Grants::load(dir.path().to_owned());
    assert!([one, two, three].into_iter().all(|id| grants.owns(&key, id)));
    // An id that is used again is not the grant's any more.
    grants.claim(two, None, |_| true).unwrap();
    assert!(!Grants::load(dir.path().to_owned()).owns(&key, two));
    assert!(!grants.is_over(one));
    grants.revoke("g-1").unwrap();
    assert!(grants.is_over(one) && !grants.is_over(two));
    assert!(grants.claim(SessionId(4), Some(&key), |_| false).is_err());
}

/// However many came after them, since they are to end with the grant.
#[test]
fn sessions_that_live_are_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let grants = Grants::load(dir.path().to_owned());
    grants.add(grant(Profile::Workspace)).unwrap();
    let key = grants.of_token(b"secret").unwrap().unwrap();
    let lives = |id: SessionId| id == SessionId(3);
    for n in 1..=REMEMBERED as u32 + 10 {
        grants.claim(SessionId(n), Some(&key), lives).unwrap();
    }
    assert!(grants.owns(&key, SessionId(3)) && !grants.owns(&key, SessionId(4)));
    assert!(grants.owns(&key, SessionId(REMEMBERED as u32 + 10)));
}

#[test]
fn only_what_programs_need_is_inherited() {
    for (name, kept) in
        [("PATH", true), ("LC_ALL", true), ("AWS_SECRET_ACCESS_KEY", false), ("SSH_AUTH_SOCK", false)]
    {
        assert_eq!(rules::is_inherited(name), kept, "{name}");
    }
}
