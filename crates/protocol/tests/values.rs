//! Small values: names, ids, sizes, faults. Much of it is also written beside the wire (in stores, messages,
//! metrics), where it must be what the wire says.
#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::ErrorKind;

use serde::Serialize;
use serde_json::json;
use trl_protocol::agent::{AssignScope, Token};
use trl_protocol::contact::ContactState;
use trl_protocol::exec::{FinishedFields, HitLimit, Outcome, Stream};
use trl_protocol::frame::{Frame, MAX_FRAME, put_data, put_json, split};
use trl_protocol::ids::is_env_name;
use trl_protocol::isolation::{Isolation, Profile, Size};
use trl_protocol::mail::{AnswerCommand, SendAndWaitParams, Text};
use trl_protocol::request::nearest;
use trl_protocol::resume::{Greeting, ResumableEnd};
use trl_protocol::session::Usage;
use trl_protocol::wire::FromHost;
use trl_protocol::{Code, ExecId, Fault, SessionId};

fn is_on_the_wire<T: Serialize>(value: T, name: &str) {
    assert_eq!(serde_json::to_value(value).unwrap(), name);
}

#[test]
fn a_name_is_what_the_wire_says() {
    for scope in AssignScope::ALL {
        is_on_the_wire(scope, scope.name());
    }
    use ContactState::{Accepted, Asking, Blocked, Declined, Own, Requested};
    for state in [Requested, Asking, Accepted, Declined, Blocked, Own] {
        is_on_the_wire(state, state.name());
    }
    for limit in [HitLimit::Memory, HitLimit::Pids, HitLimit::FileSize, HitLimit::CpuTimeS] {
        is_on_the_wire(limit, limit.name());
    }
    for profile in [Profile::None, Profile::Workspace, Profile::Strict] {
        is_on_the_wire(profile, profile.name());
        assert_eq!(Isolation::of(profile).profile, profile);
        assert_eq!(Isolation::of(profile).is_none(), profile == Profile::None);
    }
    for stream in Stream::BOTH {
        is_on_the_wire(stream, stream.name());
        assert_eq!(Stream::BOTH[stream.index()], stream);
    }
    assert_eq!(&*Token("secret".to_owned()), "secret");
}

#[test]
fn a_stream_is_truncated_if_it_is_longer_than_the_reply_held() {
    for (bytes, truncated) in [(9, false), (10, false), (11, true)] {
        let out = FinishedFields::of(Outcome { stdout_bytes: bytes, ..Outcome::default() }, 10);
        assert_eq!((out.stdout_truncated, out.stderr_truncated), (truncated, false), "{bytes}");
        let err = FinishedFields::of(Outcome { stderr_bytes: bytes, ..Outcome::default() }, 10);
        assert_eq!((err.stdout_truncated, err.stderr_truncated), (false, truncated), "{bytes}");
    }
}

#[test]
fn faults_say_what_and_which() {
    let fault = Fault::invalid("no such thing");
    assert_eq!(fault.to_string(), "no such thing (INVALID_PARAMS)");
    assert!(Fault::schema().get("properties").is_some_and(|fields| fields.get("code").is_some()));
    for (kind, code, remedy) in [
        (ErrorKind::WouldBlock, Code::ResourcePressure, "end some processes"),
        (ErrorKind::StorageFull, Code::ResourcePressure, "disk space"),
        (ErrorKind::ReadOnlyFilesystem, Code::ResourcePressure, "writable"),
        (ErrorKind::OutOfMemory, Code::ResourcePressure, "memory"),
        (ErrorKind::ArgumentListTooLong, Code::PayloadTooLarge, "smaller"),
        (ErrorKind::NotFound, Code::InternalError, "it"),
    ] {
        let fault = Fault::refused_by_system("it", &kind.into());
        assert_eq!(fault.code, code, "{kind}");
        assert!(fault.message.contains(remedy), "{fault}");
        let for_now = Fault::refused_for_now("it", &kind.into());
        let expected = if code == Code::InternalError { Code::ResourcePressure } else { code };
        assert_eq!(for_now.code, expected, "{kind}");
    }
}

#[test]
fn frames_of_both_streams_and_of_full_size_come_back_wherever_they_begin() {
    let mut wire = b"before".to_vec();
    put_json(&mut wire, &json!([1])).unwrap();
    assert_eq!(split(&wire[6..]).unwrap().unwrap(), (Frame::Json(b"[1]"), wire.len() - 6));
    for stream in Stream::BOTH {
        let mut wire = Vec::new();
        put_data(&mut wire, 1, stream, 2, b"x");
        let expected = Frame::Data { req: 1, stream, offset: 2, bytes: b"x" };
        assert_eq!(split(&wire).unwrap().unwrap().0, expected);
    }
    let largest = u32::try_from(MAX_FRAME).unwrap();
    assert_eq!(split(&largest.to_le_bytes()), Ok(None), "the rest may still come");
    assert!(split(&(largest + 1).to_le_bytes()).is_err());
}

#[test]
fn ids_are_written_one_way() {
    let (session, exec) = (SessionId(0xab), ExecId { session: SessionId(0xab), number: 0 });
    assert_eq!((session.to_string(), exec.to_string()), ("s-000000ab".into(), "e-000000ab-0".into()));
    assert_eq!("e-000000ab-0".parse::<ExecId>().unwrap(), exec);
    for wrong in ["e-000000ab-00", "e-000000ab-01", "e-000000ab-+1", "e-000000ab-", "s-000000ab"] {
        assert!(wrong.parse::<ExecId>().unwrap_err().to_string().contains(wrong), "{wrong}");
    }
}

#[test]
fn variables_have_names_that_shells_take() {
    for (name, fine) in [
        ("A", true),
        ("_", true),
        ("_a1", true),
        ("a_b", true),
        ("", false),
        ("1a", false),
        ("a-b", false),
        ("a=b", false),
        ("é", false),
        ("aé", false),
        ("a b", false),
    ] {
        assert_eq!(is_env_name(name), fine, "{name:?}");
    }
}

#[test]
fn sizes_have_an_upper_end_and_say_what_is_expected() {
    assert_eq!(Size::parse("2T"), Some(Size(2 << 40)));
    assert_eq!(Size::parse("4194303.5T"), Some(Size((4_194_303 << 40) + (1 << 39))));
    assert_eq!(Size::parse("4194304.0T"), None);
    let error = serde_json::from_value::<Size>(json!("many")).unwrap_err().to_string();
    assert!(error.contains("such as `512M`"), "{error}");
}

/// Nobody writes an object to have everything.
#[test]
fn an_isolation_object_isolates_unless_its_profile_is_none() {
    let create = |isolation| {
        let request = trl_protocol::Request::parse("session.create", json!({ "isolation": isolation }));
        let Ok(trl_protocol::Request::SessionCreate(params)) = request else { return None };
        params.isolation.map(|isolation| isolation.profile)
    };
    for detail in [
        json!({"read": ["/a"]}),
        json!({"write": ["/a"]}),
        json!({"hide": ["/a"]}),
        json!({"net": "full"}),
        json!({"root": "/a"}),
        json!({"net": "none"}),
        json!({"best_effort": true}),
        json!({}),
    ] {
        assert_eq!(create(detail.clone()), Some(Profile::Workspace), "{detail}");
    }
    assert_eq!(create(json!({"profile": "none"})), Some(Profile::None));
    assert_eq!(create(json!({"profile": "none", "net": "full"})), None);
}

#[test]
fn no_log_tells_what_a_message_says() {
    let text = Text::from("secret");
    assert_eq!((&*text, Text::from("secret".to_owned())), ("secret", text.clone()));
    assert_eq!(format!("{text:?}"), "[6 bytes]");
}

#[test]
fn sending_and_waiting_is_both() {
    let both = SendAndWaitParams {
        to: "bob".to_owned(),
        text: "hi".into(),
        send_id: Some("try-1".to_owned()),
        timeout_s: Some(3.0),
        peek: true,
        as_token: Some(Token("token".to_owned())),
        ..SendAndWaitParams::default()
    };
    let (send, awaited) = both.split();
    assert_eq!((send.to.as_str(), &*send.text, send.send_id.as_deref()), ("bob", "hi", Some("try-1")));
    assert_eq!((awaited.timeout_s, awaited.peek), (Some(3.0), true));
    assert_eq!(send.as_token, awaited.as_token);
    assert!(send.as_token.is_some());
}

#[test]
fn what_answers_is_words_or_a_line_for_the_shell() {
    let words =
        |command: serde_json::Value| serde_json::from_value::<AnswerCommand>(command).unwrap().words();
    assert_eq!(words(json!(["a", "b c"])), ["a", "b c"]);
    assert_eq!(words(json!("a | b")), ["/bin/sh", "-c", "a | b"]);
}

#[test]
fn a_name_is_near_if_little_of_it_is_wrong() {
    let known = "a".repeat(12);
    let near = |written: &str| nearest(written, [known.as_str()].into_iter()).is_some();
    assert!(near("aaaaaaaabbbb") && !near("aaaaaaabbbbb"));
    let long = "a".repeat(80);
    assert_eq!(nearest(&long, [long.as_str()].into_iter()), Some(long.as_str()));
    assert_eq!(nearest(&"a".repeat(81), [long.as_str()].into_iter()), None, "too long to be compared");
}

#[test]
fn an_answer_of_a_host_says_to_what_and_whether_it_is_the_last() {
    let gap = FromHost::Gap { req: 7, stream: Stream::Stdout, from: 0, to: 1 };
    let taken = FromHost::Taken { req: 8 };
    assert_eq!((gap.req(), gap.is_final()), (7, false));
    assert_eq!((taken.req(), taken.is_final()), (8, true));
}

#[test]
fn bytes_in_json_come_back() {
    #[derive(Serialize, serde::Deserialize)]
    struct Bytes(#[serde(with = "trl_protocol::wire::base64_bytes")] Vec<u8>);
    let written = serde_json::to_string(&Bytes(b"\0\xff!".to_vec())).unwrap();
    assert_eq!(written, "\"AP8h\"");
    assert_eq!(serde_json::from_str::<Bytes>(&written).unwrap().0, b"\0\xff!");
    assert!(serde_json::from_str::<Bytes>("\"not base64\"").is_err());
}

#[test]
fn what_two_have_used_is_added_up_but_not_their_peaks() {
    let usage = |n: u64| Usage {
        cpu_s: Some(n as f64),
        memory_bytes: Some(n),
        memory_peak_bytes: Some(n),
        processes: Some(n),
        ..Usage::default()
    };
    let both = usage(1).and(Usage { processes: None, ..usage(2) });
    assert_eq!(
        (both.cpu_s, both.memory_bytes, both.memory_peak_bytes, both.processes, both.written_bytes),
        (Some(3.0), Some(3), Some(2), Some(1), None)
    );
}

#[test]
fn a_name_of_eighty_characters_is_shown_whole() {
    for (length, whole) in [(80, true), (81, false)] {
        let shown = trl_protocol::quote::name(&"é".repeat(length));
        assert_eq!(!shown.contains('…'), whole, "{length}");
    }
}

#[test]
fn greetings_come_back() {
    for received in [None, Some(9)] {
        let greeting = Greeting { token: [7; 16], received };
        assert_eq!(Greeting::parse(&greeting.to_bytes()), Ok(greeting));
    }
}

#[test]
fn what_arrived_is_acknowledged_now_and_then_and_at_the_end() {
    const ENOUGH: usize = 64 * 1024;
    let is_acknowledged = |bytes: usize, finish: bool| {
        let (mut near, mut far) = (ResumableEnd::new(), ResumableEnd::new());
        assert!(near.is_all_acked());
        near.push(&vec![0; bytes]);
        assert_eq!(near.is_all_acked(), bytes == 0);
        if finish {
            near.finish();
        }
        let (mut out, mut back) = (Vec::new(), Vec::new());
        near.take_output(&mut out);
        far.take_input(&out, &mut Vec::new()).unwrap();
        far.take_output(&mut back);
        back.first() == Some(&b'A')
    };
    assert!(!is_acknowledged(ENOUGH - 1, false) && is_acknowledged(ENOUGH, false));
    assert!(is_acknowledged(1, true) && !is_acknowledged(0, true));
}
