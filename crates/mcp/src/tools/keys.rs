//! Keys by name, as the bytes that a terminal sends for them.

use trl_protocol::Fault;
use trl_protocol::request::nearest;

/// What a key sends depends on what the program has asked of the terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    /// Arrows, home and end begin with `ESC O` instead of `ESC [`.
    pub(crate) application_cursor: bool,
    /// Pasted text is set apart from typed text.
    pub(crate) bracketed_paste: bool,
}

const PLAIN: &[(&str, &str)] = &[
    ("enter", "\r"),
    ("return", "\r"),
    ("tab", "\t"),
    ("esc", "\u{1b}"),
    ("escape", "\u{1b}"),
    ("space", " "),
    ("backspace", "\u{7f}"),
    ("f1", "\u{1b}OP"),
    ("f2", "\u{1b}OQ"),
    ("f3", "\u{1b}OR"),
    ("f4", "\u{1b}OS"),
];

/// `ESC [ letter`, with modifiers `ESC [ 1 ; n letter`.
const LETTERS: &[(&str, char)] =
    &[("up", 'A'), ("down", 'B'), ("right", 'C'), ("left", 'D'), ("home", 'H'), ("end", 'F')];

/// The same with modifiers only: without, they are in [`PLAIN`].
const LETTERS_OF_MODIFIED: &[(&str, char)] = &[("f1", 'P'), ("f2", 'Q'), ("f3", 'R'), ("f4", 'S')];

/// `ESC [ number ~`, with modifiers `ESC [ number ; n ~`.
const NUMBERS: &[(&str, u8)] = &[
    ("insert", 2),
    ("delete", 3),
    ("pageup", 5),
    ("pagedown", 6),
    ("f5", 15),
    ("f6", 17),
    ("f7", 18),
    ("f8", 19),
    ("f9", 20),
    ("f10", 21),
    ("f11", 23),
    ("f12", 24),
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Modifiers {
    shift: bool,
    alt: bool,
    ctrl: bool,
}

impl Modifiers {
    /// As xterm counts them.
    fn number(self) -> u8 {
        1 + u8::from(self.shift) + 2 * u8::from(self.alt) + 4 * u8::from(self.ctrl)
    }

    fn any(self) -> bool {
        self.number() > 1
    }
}

pub(crate) fn bytes(key: &str, modes: Modes) -> Result<String, Fault> {
    let (modifiers, name) = split(key.trim());
    let known = special(&name.to_ascii_lowercase(), modifiers, modes).or_else(|| character(name, modifiers));
    known.ok_or_else(|| unknown(key, &name.to_ascii_lowercase()))
}

/// `ctrl-alt-x` and `C-M-x`; a single character is never a modifier.
fn split(key: &str) -> (Modifiers, &str) {
    let mut modifiers = Modifiers::default();
    let mut rest = key;
    while let Some(at) = rest.find(['-', '+']).filter(|at| *at > 0 && *at + 1 < rest.len()) {
        match rest[..at].to_ascii_lowercase().as_str() {
            "ctrl" | "control" | "c" => modifiers.ctrl = true,
            "alt" | "meta" | "m" => modifiers.alt = true,
            "shift" | "s" => modifiers.shift = true,
            _ => break,
        }
        rest = &rest[at + 1..];
    }
    (modifiers, rest)
}

fn special(name: &str, modifiers: Modifiers, modes: Modes) -> Option<String> {
    let find =
        |table: &[(&str, char)]| table.iter().find(|(known, _)| *known == name).map(|(_, letter)| *letter);
    let number = modifiers.number();
    if let Some(letter) = find(LETTERS) {
        return Some(match (modifiers.any(), modes.application_cursor) {
            (true, _) => format!("\u{1b}[1;{number}{letter}"),
            (false, true) => format!("\u{1b}O{letter}"),
            (false, false) => format!("\u{1b}[{letter}"),
        });
    }
    if let Some(letter) = find(LETTERS_OF_MODIFIED).filter(|_| modifiers.any()) {
        return Some(format!("\u{1b}[1;{number}{letter}"));
    }
    if let Some((_, code)) = NUMBERS.iter().find(|(known, _)| *known == name) {
        return Some(if modifiers.any() {
            format!("\u{1b}[{code};{number}~")
        } else {
            format!("\u{1b}[{code}~")
        });
    }
    let (_, plain) = PLAIN.iter().find(|(known, _)| *known == name)?;
    let Modifiers { shift, alt, ctrl } = modifiers;
    let sent = match (name, shift, ctrl) {
        ("tab", true, _) => "\u{1b}[Z",
        ("space", _, true) => "\0",
        ("backspace", _, true) => "\u{8}",
        _ => plain,
    };
    Some(if alt { format!("\u{1b}{sent}") } else { sent.to_owned() })
}

/// A letter or sign with ctrl or alt; without one of them it is text.
fn character(name: &str, modifiers: Modifiers) -> Option<String> {
    let mut characters = name.chars();
    let (one, None) = (characters.next()?, characters.next()) else { return None };
    let Modifiers { shift, alt, ctrl } = modifiers;
    let one = if shift { one.to_ascii_uppercase() } else { one };
    let sent = match (ctrl, one.to_ascii_lowercase()) {
        (false, _) if alt => one,
        (false, _) => return None,
        (true, letter @ 'a'..='z') => char::from(letter as u8 - b'a' + 1),
        (true, '@' | '2') => '\0',
        (true, '[' | '3') => '\u{1b}',
        (true, '\\' | '4') => '\u{1c}',
        (true, ']' | '5') => '\u{1d}',
        (true, '^' | '6') => '\u{1e}',
        (true, '_' | '-' | '/' | '7') => '\u{1f}',
        (true, '?' | '8') => '\u{7f}',
        (true, _) => return None,
    };
    Some(if alt { format!("\u{1b}{sent}") } else { sent.to_string() })
}

fn unknown(key: &str, name: &str) -> Fault {
    let names = || {
        let letters = LETTERS.iter().map(|(known, _)| *known);
        PLAIN.iter().map(|(known, _)| *known).chain(letters).chain(NUMBERS.iter().map(|(known, _)| *known))
    };
    let hint = nearest(name, names()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_else(|| {
        "; keys are enter, tab, esc, up, f1, ctrl-c, alt-x, shift-tab and so on; letters go into `text`"
            .to_owned()
    });
    Fault::invalid(format!("there is no key {key:?}{hint}"))
}

/// A block of text as a terminal sends it when a person pastes: lines end as Enter would end them, and
/// a program that wants to know is told where the paste begins and ends.
pub(crate) fn pasted(text: &str, modes: Modes) -> String {
    if !modes.bracketed_paste || text.is_empty() {
        return text.to_owned();
    }
    // Nothing inside may end the paste early: the rest would count as typed.
    let inside =
        text.replace("\u{1b}[201~", "").replace("\u{1b}[200~", "").replace("\r\n", "\n").replace('\n', "\r");
    format!("\u{1b}[200~{inside}\u{1b}[201~")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Modes = Modes { application_cursor: false, bracketed_paste: false };

    #[test]
    fn keys_are_what_a_terminal_sends() {
        for (key, expected) in [
            ("enter", "\r"),
            ("Enter", "\r"),
            ("ctrl-c", "\u{3}"),
            ("C-d", "\u{4}"),
            ("ctrl+z", "\u{1a}"),
            ("ctrl-\\", "\u{1c}"),
            ("ctrl-]", "\u{1d}"),
            ("ctrl-_", "\u{1f}"),
            ("ctrl--", "\u{1f}"),
            ("ctrl-space", "\0"),
            ("ctrl-@", "\0"),
            ("up", "\u{1b}[A"),
            ("ctrl-right", "\u{1b}[1;5C"),
            ("shift-up", "\u{1b}[1;2A"),
            ("alt-left", "\u{1b}[1;3D"),
            ("shift-tab", "\u{1b}[Z"),
            ("alt-x", "\u{1b}x"),
            ("M-X", "\u{1b}X"),
            ("alt-.", "\u{1b}."),
            ("alt-enter", "\u{1b}\r"),
            ("alt-backspace", "\u{1b}\u{7f}"),
            ("ctrl-alt-a", "\u{1b}\u{1}"),
            ("f1", "\u{1b}OP"),
            ("f12", "\u{1b}[24~"),
            ("shift-f5", "\u{1b}[15;2~"),
            ("ctrl-f1", "\u{1b}[1;5P"),
            ("delete", "\u{1b}[3~"),
            ("insert", "\u{1b}[2~"),
            ("ctrl-delete", "\u{1b}[3;5~"),
        ] {
            assert_eq!(bytes(key, NORMAL).unwrap(), expected, "{key}");
        }
        let application = Modes { application_cursor: true, ..NORMAL };
        assert_eq!(bytes("up", application).unwrap(), "\u{1b}OA");
        assert_eq!(bytes("home", application).unwrap(), "\u{1b}OH");
        assert!(bytes("entr", NORMAL).unwrap_err().message.contains("did you mean `enter`"));
        for none in ["ctrl-é", "x", "", "-", "ctrl-"] {
            assert!(bytes(none, NORMAL).is_err(), "{none}");
        }
    }

    #[test]
    fn nothing_inside_a_paste_ends_it() {
        let bracketed = Modes { bracketed_paste: true, ..NORMAL };
        assert_eq!(pasted("a\nb", NORMAL), "a\nb");
        assert_eq!(pasted("a\nb", bracketed), "\u{1b}[200~a\rb\u{1b}[201~");
        assert_eq!(pasted("a\u{1b}[201~rm", bracketed), "\u{1b}[200~arm\u{1b}[201~");
    }
}
