//! Whatever line comes in, it is a request or it is refused to an id that can be written.

use trl_protocol::Request;

use super::read;

#[test]
fn fuzz_request_lines() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/request_lines");
    let words: &[&[u8]] = &[
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b":",
        b",",
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"\\u0000",
        b"\\ud800",
        b"\xff",
        b"\0",
        b"\"id\":",
        b"\"params\":",
        b"\"method\":\"exec.stream\"",
        b"\"method\":\"exec.run\"",
        b"\"command\":\"x\"",
        b"{\"a\":{\"a\":{\"a\":",
        b"9007199254740993",
        b"0.1",
        b"s-00000001",
        b"e-00000001-1",
    ];
    trl_testkit::fuzz(&corpus, words, |line| match read(line) {
        Ok(call) => {
            assert!(serde_json::from_str::<serde_json::Value>(&call.id).is_ok(), "{}", call.id);
            if let Request::ExecRun(_) = &call.request {
                // Read by a way of its own, to the same end.
                let line: serde_json::Value = serde_json::from_slice(line).unwrap();
                let expected = Request::parse("exec.run", line["params"].clone());
                assert_eq!(Ok(&call.request), expected.as_ref());
            }
            call.request.info().name.to_owned()
        }
        Err(refusal) => {
            assert!(serde_json::from_str::<serde_json::Value>(&refusal.id).is_ok(), "{}", refusal.id);
            let text = refusal.fault.to_string();
            assert!(text.len() < 64 * 1024, "a refusal is short");
            // What is quoted from the line would make every refusal a new one.
            text.chars().take(48).filter(|c| !c.is_ascii_digit()).collect()
        }
    });
}
