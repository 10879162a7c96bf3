//! `--json-stream`: every event as a line of JSON, as the wire has them.

use serde::Serialize;
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

#[derive(Debug, Serialize)]
struct Line<'a> {
    event: &'static str,
    data: trl_protocol::Event<'a>,
}

/// Output is `text` where it is UTF-8, else `base64`: nothing is replaced.
fn line(event: &Event) -> Line<'_> {
    let data = event.on_wire();
    Line { event: data.name(), data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::exec::Stream;

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
