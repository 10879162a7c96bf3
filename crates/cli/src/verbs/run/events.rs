//! `--json-stream`: every event as a line of JSON, as the wire has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use trl_client::Event;
use trl_protocol::ExecId;
use trl_protocol::exec::Stream;

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

#[derive(Debug, Serialize)]
struct Line<'a> {
    event: &'static str,
    data: Data<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Data<'a> {
    Started { exec_id: ExecId },
    Text { text: &'a str, offset: u64 },
    Bytes { base64: String, offset: u64 },
    Gap { stream: Stream, from: u64, to: u64 },
    Waiting { exec_id: ExecId, prompt: &'a str },
}

/// Output is `text` where it is UTF-8, else `base64`: nothing is replaced.
fn line(event: &Event) -> Line<'_> {
    let (event, data) = match event {
        Event::Started { exec_id } => ("started", Data::Started { exec_id: *exec_id }),
        Event::Output { stream, offset, bytes } => {
            let offset = *offset;
            let data = match std::str::from_utf8(bytes) {
                Ok(text) => Data::Text { text, offset },
                Err(_) => Data::Bytes { base64: STANDARD.encode(bytes), offset },
            };
            (stream.name(), data)
        }
        Event::Gap { stream, from, to } => ("gap", Data::Gap { stream: *stream, from: *from, to: *to }),
        Event::Waiting { exec_id, prompt } => ("waiting", Data::Waiting { exec_id: *exec_id, prompt }),
    };
    Line { event, data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_bytes_stay_bytes() {
        let output = |bytes: &[u8]| {
            let event = Event::Output { stream: Stream::Stderr, offset: 3, bytes: bytes.to_vec() };
            serde_json::to_string(&line(&event)).unwrap()
        };
        assert_eq!(output("ü\n".as_bytes()), r#"{"event":"stderr","data":{"text":"ü\n","offset":3}}"#);
        assert_eq!(output(&[255]), r#"{"event":"stderr","data":{"base64":"/w==","offset":3}}"#);
    }
}
