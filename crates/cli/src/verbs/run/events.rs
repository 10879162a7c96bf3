//! `--json-stream`: every event as a line of JSON, as the wire has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trl_client::Event;

use super::live::Sink;
use crate::failure::Result;
use crate::output::Output;

#[derive(Debug)]
pub(crate) struct Lines(pub(crate) Output);

impl Sink for Lines {
    async fn take(&mut self, event: Event) -> Result<()> {
        self.0.json(&line(&event))
    }
}

/// Output is `text` where it is UTF-8, else `base64`: nothing is replaced.
fn line(event: &Event) -> Value {
    match event {
        Event::Started { exec_id } => json!({ "event": "started", "data": { "exec_id": exec_id } }),
        Event::Output { stream, offset, bytes } => match std::str::from_utf8(bytes) {
            Ok(text) => json!({ "event": stream.name(), "data": { "text": text, "offset": offset } }),
            Err(_) => {
                json!({ "event": stream.name(), "data": { "base64": STANDARD.encode(bytes), "offset": offset } })
            }
        },
        Event::Gap { stream, from, to } => {
            json!({ "event": "gap", "data": { "stream": stream, "from": from, "to": to } })
        }
        Event::Waiting { exec_id, prompt } => {
            json!({ "event": "waiting", "data": { "exec_id": exec_id, "prompt": prompt } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::exec::Stream;

    #[test]
    fn text_stays_text_and_bytes_stay_bytes() {
        let output = |bytes: &[u8]| {
            line(&Event::Output { stream: Stream::Stderr, offset: 3, bytes: bytes.to_vec() }).to_string()
        };
        assert_eq!(output("ü\n".as_bytes()), r#"{"data":{"offset":3,"text":"ü\n"},"event":"stderr"}"#);
        assert_eq!(output(&[255]), r#"{"data":{"base64":"/w==","offset":3},"event":"stderr"}"#);
    }
}
