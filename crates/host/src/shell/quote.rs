//! Text as a word that a shell reads back unchanged.

/// `'…'`, understood by every shell. Newlines stay newlines.
pub fn single(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for piece in text.split_inclusive('\'') {
        match piece.strip_suffix('\'') {
            Some(plain) => {
                out.push_str(plain);
                out.push_str("'\\''");
            }
            None => out.push_str(piece),
        }
    }
    out.push('\'');
    out
}

/// `$'…'` on one line in pure ASCII, for bash and zsh: no locale, history
/// expansion or prompt for a continued line can touch it.
pub fn ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + 3);
    out.push_str("$'");
    for &byte in super::text::bytes(text).iter() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\\' => out.push_str("\\\\"),
            b'\'' | b'!' | 0..=0x1f | 0x7f.. => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\x");
                out.push(HEX[usize::from(byte >> 4)] as char);
                out.push(HEX[usize::from(byte & 15)] as char);
            }
            plain => out.push(plain as char),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        let cases = [
            "",
            "plain",
            "it's",
            "'",
            "''",
            "a\nb",
            "é!😀",
            "\\",
            "\\n",
            "$(id) `id` \"x\"",
            "\t\r\x01\x7f",
            "4\u{1}5",
        ];
        for text in cases {
            for (shell, quoted) in
                [("dash", single(text)), ("bash", single(text)), ("bash", ansi(text)), ("zsh", ansi(text))]
            {
                let Ok(output) =
                    std::process::Command::new(shell).arg("-c").arg(format!("printf %s {quoted}")).output()
                else {
                    panic!("{shell} is needed by this test");
                };
                assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{shell} {quoted}");
            }
        }
    }
}
