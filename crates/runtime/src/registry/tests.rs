use super::*;
use crate::backend::Local;
use crate::config::Config;
use crate::link::Link;

fn info(id: SessionId, name: Option<&str>) -> SessionInfo {
    SessionInfo {
        session_id: id,
        name: name.map(str::to_owned),
        shell: "bash".into(),
        working_dir: "/".into(),
        state: SessionState::Idle,
        env_keys: Vec::new(),
        created_at: String::new(),
        last_activity: String::new(),
        command_count: 0,
        timeout_s: 60.0,
        idle_timeout_s: 0.0,
        pid: Some(2),
        host_pid: 1,
        restarts: 0,
        tty: false,
        stdout_bytes: 0,
        stderr_bytes: 0,
        running: None,
        queued: 0,
        unresponsive: false,
        runtime: None,
        foreign: None,
        damage: None,
        startup_output: None,
        confinement: Default::default(),
    }
}

fn session(id: SessionId, name: Option<&str>) -> Arc<Session> {
    let info = info(id, name);
    let link = Link::new(id);
    let nowhere = Config::new("/nowhere".into(), "/nowhere".into(), "/nowhere".into());
    let backend: Arc<dyn Backend> = Arc::new(Local::at(&nowhere));
    let host = backend.host_of(&SessionInfo { host_pid: 0, ..info.clone() });
    Arc::new(Session::new(info, link, backend, host))
}

fn living(registry: &Arc<Registry>, id: u32, name: Option<&str>) -> Arc<Session> {
    let id = SessionId(id);
    let session = session(id, name);
    registry.reserve(name, id).unwrap().fill(Arc::clone(&session));
    session
}

fn code<T: std::fmt::Debug>(result: Result<T, Fault>) -> Code {
    result.unwrap_err().code
}

#[tokio::test]
async fn by_id_and_by_name_while_it_lives_and_after() {
    let registry = Arc::new(Registry::new(4));
    let session = living(&registry, 7, Some("build"));
    for named in ["s-00000007", "build"] {
        assert_eq!(registry.living(named).unwrap().id, session.id);
    }
    assert_eq!(registry.of_exec("e-00000007-3").unwrap().1, 3);
    assert!(!registry.is_free(session.id));

    registry.remove(session.last_info(), End::Ended { reason: "idle".into() });
    registry.remove(session.last_info(), End::Lost);
    for named in ["s-00000007", "build"] {
        let fault = registry.living(named).unwrap_err();
        assert_eq!(fault.code, Code::SessionTerminated);
        assert!(fault.message.contains("idle"), "{}", fault.message);
    }
    assert_eq!(code(registry.of_exec("e-00000007-3")), Code::SessionTerminated);
    assert!(!registry.is_free(session.id), "an id is not used again");

    let next = living(&registry, 8, Some("build"));
    assert_eq!(registry.living("build").unwrap().id, next.id, "the living come first");
}

#[tokio::test]
async fn names_are_unique_and_free_again_when_nothing_came_of_it() {
    let registry = Arc::new(Registry::new(4));
    let first = registry.reserve(Some("x"), SessionId(1)).unwrap();
    assert_eq!(code(registry.reserve(Some("x"), SessionId(2))), Code::NameTaken);
    assert_eq!(code(registry.living("x")), Code::SessionBusy);
    drop(first);
    assert_eq!(code(registry.living("x")), Code::SessionNotFound);
    assert_eq!(registry.count(), 0);
    registry.reserve(Some("x"), SessionId(2)).unwrap();
}

#[tokio::test]
async fn the_limit_counts_those_that_are_being_made() {
    let registry = Arc::new(Registry::new(2));
    let _living = living(&registry, 1, None);
    let creating = registry.reserve(None, SessionId(2)).unwrap();
    let fault = registry.reserve(None, SessionId(3)).unwrap_err();
    assert_eq!(fault.code, Code::MaxSessionsReached);
    assert!(
        fault.message.contains("2 sessions") && fault.message.contains("TRL_MAX_SESSIONS"),
        "{}",
        fault.message
    );
    drop(creating);
    registry.reserve(None, SessionId(3)).unwrap();
}

#[tokio::test]
async fn what_was_never_there_gets_the_nearest_name() {
    let registry = Arc::new(Registry::new(4));
    let _living = living(&registry, 1, Some("build"));
    let fault = registry.living("biuld").unwrap_err();
    assert_eq!(fault.code, Code::SessionNotFound);
    assert!(fault.message.contains("\"build\""), "{}", fault.message);
    for exec in ["e-00000009-1", "e-1", "", "s-00000001"] {
        assert_eq!(code(registry.of_exec(exec)), Code::ExecNotFound, "{exec}");
    }
}

#[tokio::test]
async fn the_lost_are_told_until_they_are_buried() {
    let registry = Arc::new(Registry::new(4));
    let session = living(&registry, 1, None);
    registry.remove(session.last_info(), End::Lost);
    assert_eq!(registry.hostless().len(), 1);
    assert_eq!(registry.hostless()[0].state, SessionState::Lost);
    assert!(registry.living("s-00000001").unwrap_err().message.contains("lost"));
    assert!(registry.bury(session.id, "destroyed"));
    assert!(!registry.bury(session.id, "destroyed"));
    assert!(registry.hostless().is_empty());
}

#[tokio::test]
async fn a_damaged_session_is_listed_with_a_remedy_until_it_is_destroyed() {
    let registry = Arc::new(Registry::new(4));
    let session = living(&registry, 1, None);
    registry.remove(session.last_info(), End::Damaged { reason: "session.json is empty".into() });
    let [info] = &registry.hostless()[..] else { panic!("one session") };
    assert_eq!(info.state, SessionState::Damaged);
    let damage = info.damage.as_deref().unwrap();
    assert!(damage.contains("session.json is empty") && damage.contains("session.destroy"), "{damage}");
    assert!(registry.living("s-00000001").unwrap_err().message.contains("damaged"));
    assert!(registry.bury(session.id, "destroyed"));
    assert!(registry.hostless().is_empty());
}

#[tokio::test]
async fn memory_of_the_dead_is_bounded() {
    let registry = Arc::new(Registry::new(4));
    for id in 0..REMEMBERED as u32 + 10 {
        let session = living(&registry, id, None);
        registry.remove(session.last_info(), End::Lost);
    }
    assert_eq!(registry.hostless().len(), REMEMBERED);
    assert_eq!(code(registry.living("s-00000000")), Code::SessionNotFound);
}
