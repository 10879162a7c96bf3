//! Keys by name, as the bytes that a terminal sends for them.

use trl_protocol::Fault;
use trl_protocol::request::nearest;

const KEYS: &[(&str, &str)] = &[
    ("enter", "\r"),
    ("tab", "\t"),
    ("esc", "\u{1b}"),
    ("space", " "),
    ("backspace", "\u{7f}"),
    ("delete", "\u{1b}[3~"),
    ("up", "\u{1b}[A"),
    ("down", "\u{1b}[B"),
    ("right", "\u{1b}[C"),
    ("left", "\u{1b}[D"),
    ("home", "\u{1b}[H"),
    ("end", "\u{1b}[F"),
    ("pageup", "\u{1b}[5~"),
    ("pagedown", "\u{1b}[6~"),
    ("f1", "\u{1b}OP"),
    ("f2", "\u{1b}OQ"),
    ("f3", "\u{1b}OR"),
    ("f4", "\u{1b}OS"),
    ("f5", "\u{1b}[15~"),
    ("f6", "\u{1b}[17~"),
    ("f7", "\u{1b}[18~"),
    ("f8", "\u{1b}[19~"),
    ("f9", "\u{1b}[20~"),
    ("f10", "\u{1b}[21~"),
    ("f11", "\u{1b}[23~"),
    ("f12", "\u{1b}[24~"),
];

pub(crate) fn bytes(key: &str) -> Result<String, Fault> {
    let name = key.trim().to_ascii_lowercase();
    if let Some((_, bytes)) = KEYS.iter().find(|(known, _)| *known == name) {
        return Ok((*bytes).to_owned());
    }
    let controlled =
        name.strip_prefix("ctrl-").or_else(|| name.strip_prefix("ctrl+")).or_else(|| name.strip_prefix("c-"));
    if let Some([letter @ b'a'..=b'z']) = controlled.map(str::as_bytes) {
        return Ok(char::from(letter - b'a' + 1).to_string());
    }
    let hint = nearest(&name, KEYS.iter().map(|(known, _)| *known))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_else(|| {
            "; keys are enter, tab, esc, up, ctrl-c and so on; letters go into `text`".to_owned()
        });
    Err(Fault::invalid(format!("there is no key {key:?}{hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_terminal_sends() {
        for (key, expected) in
            [("enter", "\r"), ("Enter", "\r"), ("ctrl-c", "\u{3}"), ("C-d", "\u{4}"), ("up", "\u{1b}[A")]
        {
            assert_eq!(bytes(key).unwrap(), expected, "{key}");
        }
        assert!(bytes("entr").unwrap_err().message.contains("did you mean `enter`"));
        assert!(bytes("ctrl-1").is_err() && bytes("x").is_err());
    }
}
