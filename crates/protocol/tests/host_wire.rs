//! Whatever bytes come over the host's wire, they are frames or they are refused.
#![expect(clippy::expect_used, reason = "that is how a test fails")]

use trl_protocol::frame::{self, Frame};
use trl_protocol::wire::{FromHost, ToHost};

#[test]
fn fuzz_host_wire() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/host_wire");
    let words: &[&[u8]] = &[
        b"J",
        b"D",
        b"\0\0\0\0",
        b"\x01\0\0\0J",
        b"\xff\xff\xff\xff",
        b"{",
        b"}",
        b"\"op\":\"run\"",
        b"null",
        b"[0,0]",
        b"\"req\":18446744073709551616",
        b"\"data\":\"!\"",
        b"-1",
        b"\"stdin\":{\"whole\":\"aGk=\"}",
        b"\xf0\x9f",
    ];
    trl_testkit::fuzz(&corpus, words, |bytes| {
        let (mut at, mut seen) = (0, String::new());
        loop {
            match frame::split(&bytes[at..]) {
                Ok(Some((frame, length))) => {
                    assert!(length > 4 && at + length <= bytes.len());
                    at += length;
                    seen.push_str(&kind(&frame));
                }
                Ok(None) => return seen + "…",
                Err(bad) => return seen + bad.0,
            }
        }
    });
}

fn kind(frame: &Frame<'_>) -> String {
    let Frame::Json(json) = frame else { return "D".to_owned() };
    // What was understood is written again as something that is understood.
    if let Ok(message) = serde_json::from_slice::<ToHost>(json) {
        let again = serde_json::to_vec(&message).expect("it can be written");
        assert_eq!(serde_json::from_slice::<ToHost>(&again).expect("and read"), message);
        return "t".to_owned();
    }
    match serde_json::from_slice::<FromHost>(json) {
        Ok(message) => format!("h{}", u8::from(message.is_final())),
        Err(error) => format!("{:?}", error.classify()),
    }
}
