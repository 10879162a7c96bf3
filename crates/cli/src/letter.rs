//! A message as people read it: who, when, and the text, set apart from what trl itself says.

use std::io::Read as _;

use trl_protocol::mail::Message;
use trl_protocol::quote;
use trl_protocol::quote::inline as plain;

use crate::failure::{Failure, Result};
use crate::human;
use crate::output::Paint;

/// Ids and names are safe to print; the text is another's, so nothing in it moves the cursor.
pub(crate) fn show(message: &Message, paint: Paint) -> String {
    let mut head = vec![format!("from {}", from(message))];
    if message.auto {
        head.push("automatic".to_owned());
    }
    if let Some(asked) = &message.in_reply_to {
        head.push(format!("in reply to {}", plain(asked)));
    }
    if !message.dropped.is_empty() {
        head.push(format!("without its unsafe {}", plain(&message.dropped.join(", "))));
    }
    head.push(human::ago(&message.timestamp));
    let mut text = format!("{} {}\n", paint.bold(&plain(&message.message_id)), head.join(", "));
    text.push_str(&quote::block(&message.text, "    "));
    text
}

fn from(message: &Message) -> String {
    match &message.from_session {
        Some(label) => format!("{}/{}", plain(&message.from), plain(label)),
        None => plain(&message.from),
    }
}

/// The text of a message as it was given; `-` is all of stdin without its last newline.
pub(crate) fn text(given: &str) -> Result<String> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::system("reading stdin", error))?;
    let mut text = String::from_utf8(bytes).map_err(|_| Failure::usage("stdin is not UTF-8 text"))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a sender puts into any field: its lines stay behind the prefix, and nothing moves the cursor.
    #[test]
    fn hundreds_of_hostile_values_in_every_field_stay_in_their_place() {
        let values = trl_testkit::hostile::values();
        assert!(values.len() > 250, "{}", values.len());
        for value in &values {
            let fields: [fn(&mut Message, &str); 8] = [
                |message, value| message.text = value.into(),
                |message, value| message.message_id = value.into(),
                |message, value| message.from = value.into(),
                |message, value| message.from_session = Some(value.into()),
                |message, value| message.to_session = Some(value.into()),
                |message, value| message.in_reply_to = Some(value.into()),
                |message, value| message.timestamp = value.into(),
                |message, value| message.dropped = vec![value.into()],
            ];
            for (n, set) in fields.iter().enumerate() {
                let mut message = Message {
                    message_id: "m-1".into(),
                    from: "bob".into(),
                    text: "hello\nthere".into(),
                    timestamp: "never".into(),
                    ..Message::default()
                };
                set(&mut message, value);
                let shown = show(&message, Paint(false));
                let bad = shown.chars().find(|c| trl_testkit::hostile::is_unsafe(*c));
                assert_eq!(bad, None, "field {n}, {value:?}: {shown:?}");
                let mut lines = shown.lines();
                assert!(lines.next().is_some_and(|head| head.contains(" from ")), "field {n}: {shown:?}");
                assert!(lines.all(|line| line.starts_with("    ")), "field {n}, {value:?}: {shown:?}");
            }
        }
    }

    #[test]
    fn a_letter_cannot_pose_as_anything_else() {
        let message = Message {
            message_id: "m-1".into(),
            from: "bob".into(),
            from_session: Some("cli:1".into()),
            text: "one\n\x1b[2Jm-2 from \u{202e}alice".into(),
            auto: true,
            timestamp: "never".into(),
            ..Message::default()
        };
        let shown = show(&message, Paint(false));
        assert_eq!(shown, "m-1 from bob/cli:1, automatic, ? ago\n    one\n    ·[2Jm-2 from ·alice\n");
    }
}
