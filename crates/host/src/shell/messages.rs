//! What a shell itself writes to a command's stderr, and the command did not.
//!
//! bash and dash tell about background jobs that have ended wherever their stderr points to at the
//! moment, which is the stderr of the command that runs. They also name the file that a text was
//! read from, which is the engine's. Both are taken out here, line by line. Only a line that can
//! still become one of these is held, and never for long: see [`MessageFilter::flush`].

use std::borrow::Cow;

/// Longest line that is held until it is whole.
const LONGEST_HELD: usize = 8192;

/// How a shell words its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// `[1]+  Done                    text` and `bash: FILE: line 3: problem`.
    Bash,
    /// `[1] + Done                       text` and `sh: 3: FILE: problem`.
    Dash,
}

#[derive(Debug)]
pub struct MessageFilter {
    wording: Wording,
    /// The shell's name as it begins its messages, with a colon and a space.
    name: String,
    /// The file that the text is read from, with a colon and a space.
    file: String,
    /// Whether there may be background jobs to tell about.
    notices: bool,
    /// The start of a line that may be a message.
    held: Vec<u8>,
    /// A part of the current line has been passed on.
    in_line: bool,
    /// The current notice goes on until a line that begins with the end of a compound command.
    in_notice: bool,
}

/// What is to be done with a line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// It is not whole enough to say.
    Hold,
    /// A notice that ends here.
    Drop,
    /// A notice whose text goes on in the next line.
    DropOn,
    /// The first bytes stay, those up to the second number go.
    Cut(usize, usize),
}

impl MessageFilter {
    pub fn new(wording: Wording, shell: &str, file: &str, notices: bool) -> MessageFilter {
        let name = format!("{}: ", shell.rsplit('/').next().unwrap_or_default());
        let file = format!("{file}: ");
        let (held, in_line, in_notice) = (Vec::new(), false, false);
        MessageFilter { wording, name, file, notices, held, in_line, in_notice }
    }

    /// What of these bytes is the command's own, as far as that can be said now.
    pub fn pass<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.held.is_empty() && !self.in_notice && !self.has_candidate(bytes) {
            if let Some(last) = bytes.last() {
                self.in_line = *last != b'\n';
            }
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.take(piece, &mut out);
        }
        Cow::Owned(out)
    }

    /// Gives up what is held: nothing has come for a while, or nothing will.
    pub fn flush(&mut self) -> Vec<u8> {
        self.in_line |= !self.held.is_empty();
        std::mem::take(&mut self.held)
    }

    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a line in these bytes begins as a message does.
    fn has_candidate(&self, bytes: &[u8]) -> bool {
        let begins = |line: &[u8]| match line.first() {
            Some(b'[') => self.notices,
            Some(first) => self.name.as_bytes().first() == Some(first),
            None => false,
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        (!self.in_line && begins(first)) || lines.any(begins)
    }

    /// Takes one line, or a part of one.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let is_whole = piece.ends_with(b"\n");
        if self.in_line {
            out.extend_from_slice(piece);
            self.in_line = !is_whole;
            return;
        }
        self.held.extend_from_slice(piece);
        let line = std::mem::take(&mut self.held);
        match self.judge(&line, is_whole) {
            Verdict::Hold if line.len() <= LONGEST_HELD => self.held = line,
            Verdict::Pass | Verdict::Hold => {
                out.extend_from_slice(&line);
                self.in_line = !is_whole;
            }
            Verdict::Drop => self.in_notice = false,
            Verdict::DropOn => self.in_notice = true,
            Verdict::Cut(keep, resume) => {
                out.extend_from_slice(&line[..keep]);
                out.extend_from_slice(&line[resume..]);
                self.in_line = !is_whole;
            }
        }
    }

    fn judge(&self, line: &[u8], is_whole: bool) -> Verdict {
        if self.in_notice {
            return match (is_whole, ends_compound(line)) {
                (false, _) => Verdict::Hold,
                (true, true) => Verdict::Drop,
                (true, false) => Verdict::DropOn,
            };
        }
        match line.first() {
            Some(b'[') if self.notices => judge_notice(self.wording, line, is_whole),
            _ => self.judge_message(line, is_whole),
        }
    }

    /// A message that names the engine's file is passed on without it.
    fn judge_message(&self, line: &[u8], is_whole: bool) -> Verdict {
        let (name, file) = (self.name.as_bytes(), self.file.as_bytes());
        let Some(rest) = line.strip_prefix(name) else {
            return if !is_whole && name.starts_with(line) { Verdict::Hold } else { Verdict::Pass };
        };
        let number = match self.wording {
            Wording::Bash => 0,
            Wording::Dash => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                match &rest[digits..] {
                    [b':', b' ', ..] if digits > 0 => digits + 2,
                    [] | [b':'] if !is_whole => return Verdict::Hold,
                    _ => return Verdict::Pass,
                }
            }
        };
        let after = &rest[number..];
        let keep = name.len() + number;
        if after.starts_with(file) {
            Verdict::Cut(keep, keep + file.len())
        } else if !is_whole && file.starts_with(after) {
            Verdict::Hold
        } else {
            Verdict::Pass
        }
    }
}

/// The states in which a job has ended, as bash and dash name them.
const ENDED: &[&str] = &[
    "Done",
    "Exit ",
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
];

fn judge_notice(wording: Wording, line: &[u8], is_whole: bool) -> Verdict {
    let digits = line[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &line[1 + digits..];
    // What stands between the number and the state, a mark and spaces.
    let shape: [fn(u8) -> bool; 4] = match wording {
        Wording::Bash => [|b| b == b']', |b| b"+- ".contains(&b), |b| b == b' ', |b| b == b' '],
        Wording::Dash => [|b| b == b']', |b| b == b' ', |b| b"+- ".contains(&b), |b| b == b' '],
    };
    if digits > 6
        || rest.iter().zip(shape).any(|(byte, fits)| !fits(*byte))
        || (digits == 0 && !rest.is_empty())
    {
        return Verdict::Pass;
    }
    let Some(state) = rest.get(shape.len()..) else { return hold_unless(is_whole) };
    let text = state.strip_suffix(b"\n").unwrap_or(state);
    let begins = |name: &&&str| text.starts_with(name.as_bytes());
    match ENDED.iter().find(begins) {
        Some(name) if has_command(&text[name.len()..]) || is_whole && text.len() == name.len() => {
            match (is_whole, opens_compound(text)) {
                (false, _) => Verdict::Hold,
                (true, true) => Verdict::DropOn,
                (true, false) => Verdict::Drop,
            }
        }
        Some(_) => hold_unless(is_whole),
        None if ENDED.iter().any(|name| name.as_bytes().starts_with(text)) => hold_unless(is_whole),
        None => Verdict::Pass,
    }
}

fn hold_unless(is_whole: bool) -> Verdict {
    if is_whole { Verdict::Pass } else { Verdict::Hold }
}

/// Whether a number or `(3)`, then a gap and the job's text follow.
fn has_command(after: &[u8]) -> bool {
    let in_state = |byte: &u8| byte.is_ascii_digit() || b"()".contains(byte);
    let state = after.iter().take_while(|byte| in_state(byte)).count();
    let core = b" (core dumped)";
    let after = after[state..].strip_prefix(&core[..]).unwrap_or(&after[state..]);
    after.starts_with(b"  ")
}

/// Whether the text of a job goes on in the next line, as that of a loop does.
fn opens_compound(text: &[u8]) -> bool {
    let words = [&b" do"[..], b" then", b" in", b"{", b"{ ", b" else", b";", b"; ", b" do ", b" then "];
    words.iter().any(|word| text.ends_with(word))
}

fn ends_compound(line: &[u8]) -> bool {
    [&b"done"[..], b"fi", b"esac", b"}", b")"].iter().any(|word| line.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/proc/12/fd/9";

    /// What is left of the text, whole and in every pair of pieces.
    fn filtered(wording: Wording, shell: &str, notices: bool, text: &str) -> String {
        let run = |pieces: &[&[u8]]| {
            let mut filter = MessageFilter::new(wording, shell, FILE, notices);
            let mut out: Vec<u8> = pieces.iter().flat_map(|piece| filter.pass(piece).into_owned()).collect();
            out.extend(filter.flush());
            String::from_utf8(out).unwrap()
        };
        let whole = run(&[text.as_bytes()]);
        for at in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(run(&[a, b]), whole, "in pieces at {at}: {text:?}");
        }
        let each: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(run(&each), whole, "byte by byte: {text:?}");
        whole
    }

    #[test]
    fn notices_of_jobs_are_taken_out() {
        for (wording, shell, text, left) in [
            (Wording::Bash, "bash", "[1]+  Done                    ( sleep .4; echo x )\n", ""),
            (Wording::Bash, "bash", "a\n[1]-  Done                    sleep .1\nb\n", "a\nb\n"),
            (Wording::Bash, "bash", "[12]   Exit 3                  false | x\n", ""),
            (Wording::Bash, "bash", "[1]+  Killed                  sleep 100\nleft", "left"),
            (
                Wording::Bash,
                "bash",
                "[1]+  Done                    for i in 1 2; do\n    sleep .1;\ndone\nb\n",
                "b\n",
            ),
            (Wording::Bash, "bash", "[1]+  Segmentation fault      (core dumped) x\n", ""),
            (Wording::Dash, "sh", "[1] + Done                       (sleep .2; echo x)\n", ""),
            (Wording::Dash, "sh", "[1] - Done(3)                    x\ny\n", "y\n"),
            (Wording::Dash, "sh", "[2]   Terminated                 sleep 9\n", ""),
        ] {
            assert_eq!(filtered(wording, shell, true, text), left, "{text:?}");
        }
    }

    #[test]
    fn what_only_looks_alike_stays() {
        for text in [
            "[1]+  Running                 sleep 100 &\n",
            "[1]+  Stopped                 vi\n",
            "[1] 4242\n",
            "[1] choose: ",
            "[x]+  Done                    a\n",
            "[]+  Done                    a\n",
            "x[1]+  Done                    a\n",
            "[1]+  Done",
            "[1]+ Done                    a\n",
            "[1]+  Doner                   a\n",
            "[INFO] started\n",
            "[",
        ] {
            assert_eq!(filtered(Wording::Bash, "bash", true, text), text);
        }
        let notice = "[1]+  Done                    a\n";
        assert_eq!(filtered(Wording::Bash, "bash", false, notice), notice, "there are no jobs");
    }

    #[test]
    fn the_engines_file_is_not_named() {
        for (wording, shell, text, left) in [
            (
                Wording::Bash,
                "/bin/bash",
                "bash: /proc/12/fd/9: line 1: syntax error\n",
                "bash: line 1: syntax error\n",
            ),
            (Wording::Bash, "bash", "bash: /proc/12/fd/99: line 1: x\n", "bash: /proc/12/fd/99: line 1: x\n"),
            (Wording::Bash, "bash", "bash: nosuch: command not found\n", "bash: nosuch: command not found\n"),
            (Wording::Bash, "bash", "see bash: /proc/12/fd/9: x\n", "see bash: /proc/12/fd/9: x\n"),
            (Wording::Dash, "sh", "sh: 2: /proc/12/fd/9: nosuch: not found\n", "sh: 2: nosuch: not found\n"),
            (Wording::Dash, "sh", "sh: 2: nosuch: not found\nsh: x", "sh: 2: nosuch: not found\nsh: x"),
            (Wording::Dash, "sh", "sh: 1: eval: Syntax error\n", "sh: 1: eval: Syntax error\n"),
        ] {
            assert_eq!(filtered(wording, shell, true, text), left, "{text:?}");
        }
    }

    #[test]
    fn what_is_held_is_given_up_and_the_line_goes_on() {
        let mut filter = MessageFilter::new(Wording::Bash, "bash", FILE, true);
        assert!(filter.pass(b"[1]").is_empty() && filter.is_holding());
        assert_eq!(filter.flush(), b"[1]");
        assert_eq!(
            &*filter.pass(b"+  Done                    a\n[1]+  Done                    b\n"),
            b"+  Done                    a\n"
        );
    }
}
