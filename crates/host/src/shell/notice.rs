//! The notice of a job's end as bash and dash print it, recognised byte by byte.
//!
//! The text of the job is part of it and may have many lines, so where a notice ends follows from the
//! text: not inside quotes, a substitution, a here-document or a compound command.

use super::messages::Wording;

/// What bytes that begin as a notice does turn out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    No,
    /// They may become one.
    Open,
    /// So many of them are one.
    Whole(usize),
}

/// The states in which a job has ended or stopped, as bash and dash name them.
const STATES: &[&str] = &[
    "Done",
    "Exit ",
    "Stopped",
    "Hangup",
    "Interrupt",
    "Quit",
    "Illegal instruction",
    "Trace/breakpoint trap",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Killed",
    "User defined signal 1",
    "Segmentation fault",
    "User defined signal 2",
    "Broken pipe",
    "Alarm clock",
    "Terminated",
    "Stack fault",
    "CPU time limit exceeded",
    "File size limit exceeded",
    "Virtual timer expired",
    "Profiling timer expired",
    "I/O possible",
    "Power failure",
    "Bad system call",
    "Real-time signal ",
    "Unknown signal",
];

/// The narrowest column of the job's text: after `[1]+  ` in bash, from the line's start in dash.
const fn column(wording: Wording) -> usize {
    match wording {
        Wording::Bash => 24,
        Wording::Dash => 33,
    }
}

pub(super) fn match_notice(wording: Wording, bytes: &[u8]) -> Match {
    // bash ends the line before it tells about a stopped job.
    let begin = usize::from(bytes.first() == Some(&b'\n'));
    let Some((head, state)) = split_head(wording, &bytes[begin..]) else { return Match::No };
    let Some(state) = state else { return Match::Open };
    let Some(found) = find_state(state) else { return Match::No };
    let Some(length) = found else { return Match::Open };
    if begin == 1 && !state.starts_with(b"Stopped") {
        return Match::No;
    }
    let width = match wording {
        Wording::Bash => length,
        Wording::Dash => head + length,
    };
    // At least two spaces in bash and one in dash, however long the state is.
    let gap = match wording {
        Wording::Bash => column(wording).saturating_sub(width).max(2),
        Wording::Dash => column(wording).saturating_sub(width).max(1),
    };
    let after = &state[length..];
    let spaces = after.iter().take(gap).take_while(|byte| **byte == b' ').count();
    match spaces {
        // A job without a text.
        0 if after.first() == Some(&b'\n') => return Match::Whole(begin + head + length + 1),
        spaces if spaces == gap => {}
        spaces if spaces == after.len() => return Match::Open,
        _ => return Match::No,
    }
    let text = &after[gap..];
    match text_length(text) {
        None => Match::Open,
        Some(end) => match directory_line(wording, text, end) {
            None => Match::Open,
            Some(more) => Match::Whole(begin + head + length + gap + end + more),
        },
    }
}

/// `[1]+  ` or `[1] + `: its length and what follows it, which is `None` if it is not whole yet.
fn split_head(wording: Wording, bytes: &[u8]) -> Option<(usize, Option<&[u8]>)> {
    let Some(rest) = bytes.strip_prefix(b"[") else {
        return bytes.is_empty().then_some((0, None));
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let shape: [fn(u8) -> bool; 4] = match wording {
        Wording::Bash => [|b| b == b']', |b| b"+- ".contains(&b), |b| b == b' ', |b| b == b' '],
        Wording::Dash => [|b| b == b']', |b| b == b' ', |b| b"+- ".contains(&b), |b| b == b' '],
    };
    let marks = &rest[digits..];
    let fits = marks.iter().zip(shape).all(|(byte, fits)| fits(*byte));
    if !fits || digits > 6 || (digits == 0 && !marks.is_empty()) {
        return None;
    }
    Some((1 + digits + shape.len(), marks.get(shape.len()..)))
}

/// The length of the state that these bytes begin with, with what belongs to it: `Exit 3`, `Done(3)`,
/// `Stopped (signal)`. Inner `None`: they may become one.
fn find_state(bytes: &[u8]) -> Option<Option<usize>> {
    let Some(name) = STATES.iter().find(|name| bytes.starts_with(name.as_bytes())) else {
        return STATES.iter().any(|name| name.as_bytes().starts_with(bytes)).then_some(None);
    };
    let rest = &bytes[name.len()..];
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = name.len() + digits(rest);
    for (open, inside) in [("(", true), (" (", *name == "Stopped")] {
        let rest = &bytes[length..];
        if inside && rest.starts_with(open.as_bytes()) {
            match rest.iter().position(|byte| *byte == b')') {
                Some(end) => length += end + 1,
                None => return Some(None),
            }
        }
    }
    // The next byte decides whether it goes on.
    (length < bytes.len()).then_some(length).map_or(Some(None), |length| Some(Some(length)))
}

/// bash adds a line if the job began elsewhere. Its length; `None` if it is not whole yet.
fn directory_line(wording: Wording, text: &[u8], end: usize) -> Option<usize> {
    const BEGIN: &[u8] = b"(wd now: ";
    let first = text[..end].trim_ascii_end();
    let began_elsewhere =
        first.ends_with(b")") && first.windows(b"  (wd: ".len()).any(|window| window == b"  (wd: ");
    let rest = &text[end..];
    if wording == Wording::Dash || !began_elsewhere {
        return Some(0);
    }
    if !rest.starts_with(BEGIN) {
        return if BEGIN.starts_with(rest) { None } else { Some(0) };
    }
    rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}

/// Where the reader of a job's text is. The shell prints it in a form of its own, with every compound
/// command laid out in lines.
#[derive(Debug, Default)]
struct Reader {
    /// Quotes and substitutions that are open, by the byte that closes them.
    quotes: Vec<u8>,
    /// Compound commands that are open, by the first byte of the word that began them.
    compounds: Vec<u8>,
    /// Whether the next word would be a command's name.
    at_command: bool,
    /// The body of a function follows.
    body_due: bool,
    /// Ends of here-documents that are due.
    documents: Vec<Vec<u8>>,
}

/// Length of the text with its end of line; `None` if it goes on.
fn text_length(text: &[u8]) -> Option<usize> {
    let mut reader = Reader { at_command: true, ..Reader::default() };
    let mut at = 0;
    while at < text.len() {
        if let Some(close) = reader.quotes.last().copied() {
            at += reader.inside(close, &text[at..]);
        } else if text[at] != b'\n' {
            at += reader.outside(&text[at..]);
        } else if !reader.documents.is_empty() {
            // The line goes on after the documents.
            at += 1 + reader.skip_documents(&text[at + 1..])?;
        } else if reader.compounds.is_empty() && !reader.body_due {
            return Some(at + 1);
        } else {
            reader.at_command = true;
            at += 1;
        }
    }
    None
}

impl Reader {
    /// Inside quotes or a substitution. How many bytes that takes.
    fn inside(&mut self, close: u8, text: &[u8]) -> usize {
        match text {
            [b'\\', ..] if close != b'\'' => return 2,
            [byte, ..] if *byte == close => {
                self.quotes.pop();
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] if close == b')' => self.quotes.push(*quote),
            [b'(', ..] if close == b')' => self.quotes.push(b')'),
            [b'$', b'(', ..] if close == b'"' => {
                self.quotes.push(b')');
                return 2;
            }
            _ => {}
        }
        1
    }

    /// A word, or what stands between two. How many bytes that takes.
    fn outside(&mut self, text: &[u8]) -> usize {
        match text {
            [b'\\', ..] => return 2,
            [quote @ (b'\'' | b'"' | b'`'), ..] => {
                self.quotes.push(*quote);
                self.at_command = false;
            }
            [b'$' | b'<' | b'>', b'(', ..] => {
                self.quotes.push(b')');
                self.at_command = false;
                return 2;
            }
            [b'<', b'<', b'<', ..] => return 3,
            [b'<', b'<', rest @ ..] => return 2 + self.note_document(rest),
            [b'(', ..] => {
                self.compounds.push(b'(');
                self.at_command = true;
            }
            [b')', ..] => {
                // One without a beginning is the end of a pattern of `case`.
                self.compounds.pop_if(|open| *open == b'(');
                self.at_command = true;
            }
            [b';' | b'|' | b'&', ..] => self.at_command = true,
            [b' ' | b'\t', ..] => {}
            _ => return self.word(text),
        }
        1
    }

    fn word(&mut self, text: &[u8]) -> usize {
        let ends = |byte: &u8| b" \t\n;|&()<>'\"`\\".contains(byte);
        let length = text.iter().position(ends).unwrap_or(text.len()).max(1);
        if !std::mem::take(&mut self.at_command) {
            return length;
        }
        match &text[..length] {
            word @ (b"if" | b"case" | b"for" | b"select" | b"while" | b"until" | b"{") => {
                self.compounds.push(word[0]);
                self.body_due &= word != b"{";
                self.at_command = !matches!(word, b"case" | b"for" | b"select");
            }
            b"fi" | b"esac" | b"done" | b"}" => {
                self.compounds.pop_if(|open| *open != b'(');
            }
            // dash shows a function as `g() { ... }`.
            b"do" | b"then" | b"else" | b"elif" | b"!" | b"time" | b"..." => self.at_command = true,
            b"function" => self.body_due = true,
            _ => {}
        }
        length
    }

    /// The word after `<<`. How many bytes that takes.
    fn note_document(&mut self, text: &[u8]) -> usize {
        let before = text.iter().take_while(|byte| b"- ".contains(byte)).count();
        let word = &text[before..];
        let length = word.iter().position(|byte| b" \t\n;|&)".contains(byte)).unwrap_or(word.len());
        let end: Vec<u8> = word[..length].iter().copied().filter(|byte| !b"'\"\\".contains(byte)).collect();
        // dash does not show the document.
        if end != b"..." {
            self.documents.push(end);
        }
        before + length
    }

    /// Length of the here-documents that follow; `None` if they are not whole.
    fn skip_documents(&mut self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        for end in std::mem::take(&mut self.documents) {
            loop {
                let line = text[at..].split_inclusive(|byte| *byte == b'\n').next()?;
                at += line.len();
                match line.strip_suffix(b"\n") {
                    Some(line) if line.trim_ascii() == end => break,
                    Some(_) => {}
                    None => return None,
                }
            }
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bash 5.2 and dash 0.5.12 print them.
    const NOTICES: &[(Wording, &str)] = &[
        (
            Wording::Bash,
            "[1]+  Done                    case a in \n    a)\n        sleep .1\n    ;;\n    b)\n        echo\n    ;;\nesac\n",
        ),
        (Wording::Bash, "[1]+  Done                    cat <<E\nhere\nE\n\n"),
        (
            Wording::Bash,
            "[1]-  Done                    { for i in 1 2;\ndo\n    echo;\ndone; case x in \n    x)\n        echo\n    ;;\nesac; }\n",
        ),
        (
            Wording::Bash,
            "[1]+  Done                    ( if true; then\n    echo a;\nfi; cat <<X\ndoc\nX\n )\n",
        ),
        (
            Wording::Bash,
            "[12]   Exit 1                  select x in a b;\ndo\n    echo $x;\ndone < /dev/null\n",
        ),
        (
            Wording::Bash,
            "[1]+  Done                    if true; then\n    echo;\nelse\n    if false; then\n        echo;\n    else\n        echo;\n    fi;\nfi\n",
        ),
        (Wording::Bash, "[1]+  Done                    for ((i=0; i<2; i++))\ndo\n    echo;\ndone\n"),
        (Wording::Bash, "[1]+  Exit 1                  [[ a == b ]] && echo x\n"),
        (Wording::Bash, "[1]+  Done                    function g () \n{ \n    echo\n}\n"),
        (Wording::Bash, "[1]+  Done                    cat <<A <<B\na\nA\nb\nB\n\n"),
        (Wording::Bash, "[1]+  Done                    while cat <<E\nhi\nE\n do\n    break;\ndone\n"),
        (Wording::Bash, "[1]+  Done                    echo 'a'\\''\nb' \"$(echo ')\n')\" `x\ny`\n"),
        (Wording::Bash, "\n[1]+  Stopped                 sleep 9\n"),
        (Wording::Bash, "\n[1]+  Stopped (tty input)     cat\n"),
        (Wording::Bash, "[1]+  Real-time signal 0      sh -c 'kill -34 $$'\n"),
        (Wording::Bash, "[1]+  Segmentation fault      (core dumped) x\n"),
        (Wording::Bash, "[1]+  Done                    sleep .1  (wd: /tmp)\n(wd now: /)\n"),
        (Wording::Bash, "[1]+  Done                    cat <<E\nhere\nE\n  (wd: ~)\n(wd now: /)\n"),
        (Wording::Dash, "[1] + Done                       case a in a) sleep .1;; b) echo;; esac\n"),
        (Wording::Dash, "[1] + Done                       (if true; then echo a; fi; cat <<...)\n"),
        (Wording::Dash, "[1] + Done(127)                  [[ a == b ]] && echo x\n"),
        (Wording::Dash, "[1] + Done                       g() { ... }\n"),
        (Wording::Dash, "[1] - Stopped (signal)           sleep 100\n"),
        (Wording::Dash, "[1] + Done                       sleep .1 \"x\ny\" 2>/dev/null\n"),
    ];

    #[test]
    fn a_notice_is_known_from_its_first_byte_to_its_last() {
        for (wording, notice) in NOTICES {
            let with_more = format!("{notice}more\n");
            let found = match_notice(*wording, with_more.as_bytes());
            assert_eq!(found, Match::Whole(notice.len()), "{notice:?}");
            for at in 1..notice.len() {
                assert_eq!(
                    match_notice(*wording, &notice.as_bytes()[..at]),
                    Match::Open,
                    "{:?}",
                    &notice[..at]
                );
            }
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "[1]+  Running                 sleep 100 &\n",
            "[1] 4242\n",
            "[x]+  Done                    a\n",
            "[]+  Done                    a\n",
            "[1]+ Done                    a\n",
            "[1]+  Done  a\n",
            "[1]+  Doner                   a\n",
            "\n[1]+  Done                    a\n",
            "[INFO] started\n",
        ] {
            assert_eq!(match_notice(Wording::Bash, line.as_bytes()), Match::No, "{line:?}");
        }
        assert_eq!(match_notice(Wording::Dash, b"[1] + Done  a\n"), Match::No);
    }
}
