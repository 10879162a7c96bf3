//! What a shell itself writes to a command's stderr, and the command did not.
//!
//! bash and dash tell about background jobs that have ended or stopped wherever their stderr points
//! to at the moment, which is the stderr of the command that runs. Neither can be told not to. They
//! also name the file that a text was read from, which is the engine's. Both are taken out here. Only
//! bytes that can still become one of these are held, and never for long: see [`MessageFilter::flush`].

use std::borrow::Cow;

use super::notice::{Match, match_notice};

/// Longest message that is held until it is whole.
const LONGEST_HELD: usize = 16 * 1024;

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
    /// The file has the session's functions, and begins their messages itself.
    has_functions: bool,
    /// Whether there may be background jobs to tell about.
    notices: bool,
    /// What may become a message.
    held: Vec<u8>,
    /// A part of the current line has been passed on.
    in_line: bool,
}

/// What is to be done with what begins here.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// It is not whole enough to say.
    Hold,
    /// So many bytes are a notice.
    Drop(usize),
    /// The first bytes stay, those up to the second number go.
    Cut(usize, usize),
    /// In the place of so many bytes, the shell's name.
    Name(usize),
}

impl MessageFilter {
    pub fn new(wording: Wording, shell: &str, file: &str, notices: bool) -> MessageFilter {
        let name = format!("{}: ", shell.rsplit('/').next().unwrap_or_default());
        let file = format!("{file}: ");
        let held = Vec::new();
        MessageFilter { wording, name, file, has_functions: false, notices, held, in_line: false }
    }

    /// For a background command of bash, whose functions were read from this file. A line number of theirs is one of
    /// the engine's file, and says nothing.
    pub fn of_functions(shell: &str, file: &str) -> MessageFilter {
        MessageFilter { has_functions: true, ..MessageFilter::new(Wording::Bash, shell, file, false) }
    }

    /// What of these bytes is the command's own, as far as that can be said now.
    pub fn pass<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.held.is_empty() && self.next_candidate(bytes).is_none() {
            self.mark_passed(bytes);
            return Cow::Borrowed(bytes);
        }
        let mut waiting = std::mem::take(&mut self.held);
        waiting.extend_from_slice(bytes);
        let (mut out, mut at) = (Vec::with_capacity(waiting.len()), 0);
        while let Some(candidate) = self.next_candidate(&waiting[at..]).map(|offset| at + offset) {
            self.give(&waiting[at..candidate], &mut out);
            let rest = &waiting[candidate..];
            at = candidate;
            match self.judge(rest) {
                Verdict::Hold if rest.len() <= LONGEST_HELD => {
                    self.held = waiting.split_off(candidate);
                    return Cow::Owned(out);
                }
                Verdict::Pass | Verdict::Hold => {
                    self.give(&rest[..1], &mut out);
                    at += 1;
                }
                Verdict::Drop(length) => at += length,
                Verdict::Cut(keep, resume) => {
                    self.give(&rest[..keep], &mut out);
                    at += resume;
                }
                Verdict::Name(length) => {
                    out.extend_from_slice(self.name.as_bytes());
                    self.in_line = true;
                    at += length;
                }
            }
        }
        self.give(&waiting[at..], &mut out);
        Cow::Owned(out)
    }

    /// Gives up what is held: nothing has come for a while, or nothing will.
    pub fn flush(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.mark_passed(&held);
        held
    }

    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    fn give(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.mark_passed(bytes);
        out.extend_from_slice(bytes);
    }

    fn mark_passed(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.in_line = *last != b'\n';
        }
    }

    /// Where a message may begin. A notice may follow a line that has no end, and bash begins one about
    /// a stopped job with an end of line.
    fn next_candidate(&self, bytes: &[u8]) -> Option<usize> {
        let name = if self.has_functions { &self.file } else { &self.name }.as_bytes().first();
        let mut in_line = self.in_line;
        for (at, byte) in bytes.iter().enumerate() {
            let may_begin = match byte {
                b'[' if self.notices => true,
                b'\n' if self.notices && self.wording == Wording::Bash => {
                    matches!(bytes.get(at + 1), None | Some(b'['))
                }
                byte => !in_line && name == Some(byte),
            };
            if may_begin {
                return Some(at);
            }
            in_line = *byte != b'\n';
        }
        None
    }

    fn judge(&self, rest: &[u8]) -> Verdict {
        match rest.first() {
            Some(b'[' | b'\n') if self.notices => match match_notice(self.wording, rest) {
                Match::No => Verdict::Pass,
                Match::Open => Verdict::Hold,
                Match::Whole(length) => Verdict::Drop(length),
            },
            _ => {
                let line = rest.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
                match self.has_functions {
                    true => self.judge_message_of_function(line),
                    false => self.judge_message(line, line.ends_with(b"\n")),
                }
            }
        }
    }

    /// `FILE: line 38: problem` or `FILE: eval: line 39: problem`.
    fn judge_message_of_function(&self, line: &[u8]) -> Verdict {
        let file = self.file.as_bytes();
        let Some(rest) = line.strip_prefix(file) else {
            return if file.starts_with(line) { Verdict::Hold } else { Verdict::Pass };
        };
        if !rest.ends_with(b"\n") {
            return Verdict::Hold;
        }
        let rest = rest.strip_prefix(b"eval: ").unwrap_or(rest);
        let numbered = rest.strip_prefix(b"line ").and_then(|rest| {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest[digits..].strip_prefix(b": ").filter(|_| digits > 0)
        });
        Verdict::Name(line.len() - numbered.unwrap_or(rest).len())
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
    fn notices_of_jobs_are_taken_out_wherever_they_begin() {
        for (wording, shell, text, left) in [
            (Wording::Bash, "bash", "[1]+  Done                    ( sleep .4; echo x )\n", ""),
            (Wording::Bash, "bash", "a\n[1]-  Done                    sleep .1\nb\n", "a\nb\n"),
            (
                Wording::Bash,
                "bash",
                "no end[1]-  Done                    sleep .1\n of line\n",
                "no end of line\n",
            ),
            (Wording::Bash, "bash", "no end\n[1]+  Stopped                 vi\nx\n", "no endx\n"),
            (Wording::Bash, "bash", "[12]   Exit 3                  false | x\n", ""),
            (Wording::Bash, "bash", "[1]+  Killed                  sleep 100\nleft", "left"),
            (
                Wording::Bash,
                "bash",
                "[1]   Done                    a\n[2]   Done                    b\nc\n",
                "c\n",
            ),
            (
                Wording::Bash,
                "bash",
                "[1]+  Done                    for i in 1 2;\ndo\n    sleep .1;\ndone\nb\n",
                "b\n",
            ),
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
            "[1] 4242\n",
            "[1] choose: ",
            "[1]+  Done",
            "[1]+  Done                    'open\n",
            "\n\n[\n",
            "a[0] = [1, [2]]\n\n[INFO] started\n",
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
    fn a_function_of_a_background_command_speaks_in_the_shells_name() {
        for (text, left) in [
            ("/proc/12/fd/9: line 38: nosuch: command not found\n", "bash: nosuch: command not found\n"),
            ("a\n/proc/12/fd/9: eval: line 3: syntax error\nb\n", "a\nbash: syntax error\nb\n"),
            ("/proc/12/fd/9: odd\n", "bash: odd\n"),
            ("/proc/12/fd/99: line 1: x\n", "/proc/12/fd/99: line 1: x\n"),
            ("ls: /proc/12/fd/9: line 1: x\n", "ls: /proc/12/fd/9: line 1: x\n"),
            ("[1]+  Done                    a\n", "[1]+  Done                    a\n"),
        ] {
            for at in 0..=text.len() {
                let mut filter = MessageFilter::of_functions("/bin/bash", FILE);
                let (a, b) = text.as_bytes().split_at(at);
                let mut out = filter.pass(a).into_owned();
                out.extend_from_slice(&filter.pass(b));
                out.extend(filter.flush());
                assert_eq!(String::from_utf8(out).unwrap(), left, "{at}");
            }
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
