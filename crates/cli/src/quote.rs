//! Words as a shell reads them back.

use std::borrow::Cow;

/// One argument is shell text as it is; several are words, each quoted where it must be.
///
/// Unlike ssh, which joins with spaces and lets the far shell split again: an argument
/// with a space in it stays one argument.
pub(crate) fn command_text(words: &[String]) -> Cow<'_, str> {
    match words {
        [text] => Cow::Borrowed(text),
        words => Cow::Owned(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
    // A leading `=` is special in zsh, and `a=b` in first place would be an assignment.
    let safe = !word.is_empty() && word.bytes().all(plain) && !word.contains('=');
    if safe { Cow::Borrowed(word) } else { Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str]) -> String {
        command_text(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).into_owned()
    }

    #[test]
    fn one_argument_is_shell_text() {
        assert_eq!(text(&["cd /tmp && echo \"$HOME\""]), "cd /tmp && echo \"$HOME\"");
        assert_eq!(text(&[""]), "");
    }

    #[test]
    fn several_arguments_stay_words() {
        for (words, expected) in [
            (&["ls", "-la", "/tmp/x"][..], "ls -la /tmp/x"),
            (&["echo", "a b", "$HOME"], "echo 'a b' '$HOME'"),
            (&["echo", "it's"], r"echo 'it'\''s'"),
            (&["echo", "", "*"], "echo '' '*'"),
            (&["env", "A=1"], "env 'A=1'"),
            (&["echo", "=ls", "~", "a\nb"], "echo '=ls' '~' 'a\nb'"),
            (&["echo", "é"], "echo 'é'"),
        ] {
            assert_eq!(text(words), expected);
        }
    }

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = ["printf", "%s|", "it's", "a  b", "$x", "`y`", "\\", "\"", "!", "#", ";", "a\nb"];
        let output = std::process::Command::new("sh").arg("-c").arg(text(&words)).output().unwrap();
        let expected: String = words[2..].iter().map(|word| format!("{word}|")).collect();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
