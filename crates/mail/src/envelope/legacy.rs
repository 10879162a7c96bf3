//! The older form: marks made of control characters in front of the text.

use super::decode::Decoded;

const AUTO: &str = "\u{1}tp-auto\u{1}";
const REPLY_OPEN: &str = "\u{1}re:";
const REPLY_CLOSE: char = '\u{1}';

/// An automatic answer for a peer that knows no envelopes.
pub fn encode_auto_reply(in_reply_to: Option<&str>, text: &str) -> String {
    match in_reply_to {
        Some(id) if !id.is_empty() => format!("{AUTO}{REPLY_OPEN}{id}{REPLY_CLOSE}{text}"),
        _ => format!("{AUTO}{text}"),
    }
}

/// Only the auto mark makes a text an older form; a reply header without it is text.
pub(super) fn decode(body: &str) -> Option<Decoded> {
    let rest = body.strip_prefix(AUTO)?;
    let reply = rest.strip_prefix(REPLY_OPEN).and_then(|tail| tail.split_once(REPLY_CLOSE));
    let (in_reply_to, text) = match reply {
        Some((id, text)) => (Some(id.to_owned()), text),
        None => (None, rest),
    };
    Some(Decoded { auto: true, in_reply_to, ..Decoded::plain(text) })
}
