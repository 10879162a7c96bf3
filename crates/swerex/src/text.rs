//! Text as programs of the other side expect it.

/// What a terminal shows, without escape sequences, with plain line ends.
pub(crate) fn plain(output: &str) -> String {
    anstream::adapter::strip_str(output).to_string().replace("\r\n", "\n")
}

/// Bytes as Python's `errors="backslashreplace"` decodes them.
pub(crate) fn backslashed(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// A word that a shell reads as it is.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(plain("\u{1b}[31mred\u{1b}[0m\r\nnext\r\n"), "red\nnext\n");
        assert_eq!(backslashed(b"a\xff\xc3\xa4\xc3"), "a\\xffä\\xc3");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
