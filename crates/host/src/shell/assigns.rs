//! Texts that set a variable of the shell that they run in, as far as the text itself says.
//!
//! The shell's state has the value of a variable, but not whether somebody has set it to what it was
//! already. What a text reads from elsewhere (a file, a function) is not looked into.

use std::iter::Peekable;
use std::str::Chars;

/// Words before a command that are not the command.
const BEFORE: &[&str] =
    &["then", "do", "else", "elif", "if", "while", "until", "{", "}", "!", "time", "builtin", "command"];

/// Whether the text sets `name` in the shell itself: not for one program, in a subshell or in a function.
pub fn sets(text: &str, name: &str) -> bool {
    sets_within(text, name, EVALS)
}

/// `eval` of an `eval` is looked into so many times.
const EVALS: u32 = 4;

fn sets_within(text: &str, name: &str, evals: u32) -> bool {
    text.contains(name) && Commands::of(text).iter().any(|words| assigns(words, name, evals))
}

fn assigns(words: &[String], name: &str, evals: u32) -> bool {
    let begin = words.iter().take_while(|word| BEFORE.contains(&word.as_str())).count();
    let words = &words[begin..];
    let given = words.iter().take_while(|word| is_assignment(word)).count();
    let is_it = |word: &String| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
    let Some((command, arguments)) = words[given..].split_first() else {
        return words.iter().any(is_it);
    };
    match command.as_str() {
        "export" | "declare" | "typeset" | "readonly" => {
            let takes_away = arguments.iter().any(|word| matches!(word.as_str(), "-n" | "+x" | "-p"));
            !takes_away && arguments.iter().any(|word| word == name || is_it(word))
        }
        "read" => arguments.iter().any(|word| word == name),
        "eval" => evals > 0 && sets_within(&arguments.join(" "), name, evals - 1),
        _ => false,
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Splits a text into the commands that run in the shell itself, each as its words without quotes.
struct Commands<'a> {
    rest: Peekable<Chars<'a>>,
    done: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The command reads from a pipe.
    is_piped: bool,
    /// `()` was read: braces that follow are a function.
    is_function: bool,
    /// Ends of texts that begin with the next line.
    heredocs: Vec<String>,
}

impl<'a> Commands<'a> {
    fn of(text: &'a str) -> Vec<Vec<String>> {
        let mut commands = Commands {
            rest: text.chars().peekable(),
            done: Vec::new(),
            words: Vec::new(),
            word: None,
            is_piped: false,
            is_function: false,
            heredocs: Vec::new(),
        };
        while let Some(next) = commands.rest.next() {
            commands.take(next);
        }
        commands.end_command(true);
        commands.done
    }

    fn take(&mut self, next: char) {
        match next {
            ' ' | '\t' => self.end_word(),
            '\\' | '\'' | '"' | '`' => self.quoted(next),
            '#' if self.word.is_none() => while self.rest.next_if(|next| *next != '\n').is_some() {},
            '(' => self.is_function = self.skip('(', ')') == 0,
            '{' if self.word.is_none() && self.begins_function() => {
                self.skip('{', '}');
                self.words.clear();
                self.is_function = false;
            }
            '<' if self.rest.next_if_eq(&'<').is_some() => self.heredoc(),
            '<' | '>' => {
                self.end_word();
                while self.rest.next_if(|next| "<>&|".contains(*next)).is_some() {}
            }
            ';' => self.end_command(true),
            '\n' => {
                self.end_command(true);
                self.skip_heredocs();
            }
            '&' if self.rest.peek() == Some(&'>') => self.end_word(),
            '&' => {
                let is_list = self.rest.next_if_eq(&'&').is_some();
                self.end_command(is_list);
            }
            '|' => {
                let is_list = self.rest.next_if_eq(&'|').is_some();
                self.end_command(is_list);
                self.is_piped = !is_list;
            }
            other => self.word.get_or_insert_default().push(other),
        }
    }

    fn begins_function(&self) -> bool {
        self.is_function || self.words.first().is_some_and(|word| word == "function")
    }

    fn quoted(&mut self, quote: char) {
        let word = self.word.get_or_insert_default();
        if quote == '\\' {
            word.extend(self.rest.next().filter(|next| *next != '\n'));
            return;
        }
        while let Some(next) = self.rest.next().filter(|next| *next != quote) {
            match next {
                '\\' if quote == '"' => word.extend(self.rest.next()),
                next => word.push(next),
            }
        }
    }

    /// Up to the end of what was opened; the number of characters inside.
    fn skip(&mut self, open: char, close: char) -> usize {
        let (mut depth, mut inside) = (1, 0);
        while let Some(next) = self.rest.next() {
            match next {
                '\\' => drop(self.rest.next()),
                '\'' | '"' => while self.rest.next().is_some_and(|other| other != next) {},
                next if next == open => depth += 1,
                next if next == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            inside += 1;
        }
        inside
    }

    /// Behind `<<`.
    fn heredoc(&mut self) {
        self.end_word();
        if self.rest.next_if_eq(&'<').is_some() {
            return;
        }
        while self.rest.next_if(|next| "- \t".contains(*next)).is_some() {}
        let mut end = String::new();
        while let Some(next) = self.rest.next_if(|next| !next.is_whitespace() && !";&|<>()".contains(*next)) {
            end.extend((!"'\"\\".contains(next)).then_some(next));
        }
        self.heredocs.push(end);
    }

    fn skip_heredocs(&mut self) {
        for end in std::mem::take(&mut self.heredocs) {
            while self.rest.peek().is_some() {
                let mut line = String::new();
                while let Some(next) = self.rest.next().filter(|next| *next != '\n') {
                    line.push(next);
                }
                if line.trim_start_matches('\t') == end {
                    break;
                }
            }
        }
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    /// `in_shell`: nothing puts it into a process of its own.
    fn end_command(&mut self, in_shell: bool) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if in_shell && !self.is_piped && !words.is_empty() {
            self.done.push(words);
        }
        (self.is_piped, self.is_function) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_set_it() {
        for text in [
            "export TERM=dumb",
            "TERM=dumb",
            "A=1 TERM='dumb'",
            "cd x && export A=1 TERM",
            "if true; then TERM=dumb; fi",
            "{ declare -x TERM=\"dumb\"; }",
            "echo a | cat; typeset TERM=dumb # why",
            "cat <<E >x\nno\nE\nexport TERM=dumb",
            "eval 'export TERM=dumb'",
            "read -r TERM <file",
            "make 2>&1; TERM=dumb",
            "f() { echo; }; TERM=dumb",
        ] {
            assert!(sets(text, "TERM"), "{text}");
        }
    }

    #[test]
    fn texts_that_only_mention_it() {
        for text in [
            "TERM=dumb make",
            "echo $TERM TERM=dumb",
            "(export TERM=dumb)",
            "x=$(TERM=dumb; tput cols)",
            "TERM=dumb & wait",
            "echo x | read TERM",
            "cat >x <<'E'\nexport TERM=dumb\nE\n",
            "sh -c 'export TERM=dumb; make'",
            "# export TERM=dumb",
            "f() { export TERM=dumb; }",
            "function f { export TERM=dumb\n}",
            "export COLORTERM=x TERMINFO=y",
            "env TERM=dumb ls",
            "unset TERM",
            "export -n TERM",
            "'",
            "(((",
            "<<",
        ] {
            assert!(!sets(text, "TERM"), "{text}");
        }
    }
}
