//! Writes text as a JSON string, fast.
//!
//! All streamed output passes through here, so it decides how fast a stream can be:
//! text with few escapes is copied in runs, text with many byte by byte from a table and
//! without branches (`yes` prints a newline every other byte).

/// Bytes looked at together.
const BLOCK: usize = 32;
const WORD: usize = 8;
/// Up to so many escapes in a block, what lies between them is copied; with more of
/// them the next bytes are written one by one.
const FEW: u32 = 3;
const DENSE: usize = 256;
/// Longest form of one byte (`\u001f`); the entry's last byte is its length.
const ENTRY: usize = 8;
const HEX: &[u8; 16] = b"0123456789abcdef";

static ENTRIES: [[u8; ENTRY]; 256] = entries();

const fn entries() -> [[u8; ENTRY]; 256] {
    let mut table = [[0; ENTRY]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = entry(byte as u8);
        byte += 1;
    }
    table
}

const fn entry(byte: u8) -> [u8; ENTRY] {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0C => b'f',
        b'\r' => b'r',
        0..0x20 => {
            let (high, low) = (HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]);
            return [b'\\', b'u', b'0', b'0', high, low, 0, 6];
        }
        _ => return [byte, 0, 0, 0, 0, 0, 0, 1],
    };
    [b'\\', short, 0, 0, 0, 0, 0, 2]
}

/// Appends `text` as a JSON string, with its quotes.
pub fn put(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + text.len() / 8 + 2);
    out.push(b'"');
    put_escaped(out, text.as_bytes());
    out.push(b'"');
}

pub fn put_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut scratch = [0; DENSE * 6 + ENTRY];
    // What is before `copied` is written; between there and `at` is nothing to escape.
    let (mut copied, mut at) = (0, 0);
    while let Some(block) = bytes.get(at..at + BLOCK) {
        if is_clean(block) {
            at += BLOCK;
            continue;
        }
        let marks = marks(block);
        if marks.iter().map(|word| word.count_ones()).sum::<u32>() > FEW {
            out.extend_from_slice(&bytes[copied..at]);
            copied = bytes.len().min(at + DENSE);
            put_dense(out, &bytes[at..copied], &mut scratch);
            at = copied;
            continue;
        }
        for (word, mut mark) in (at..).step_by(WORD).zip(marks) {
            while mark != 0 {
                let place = word + (mark.trailing_zeros() / 8) as usize;
                out.extend_from_slice(&bytes[copied..place]);
                let entry = &ENTRIES[usize::from(bytes[place])];
                out.extend_from_slice(&entry[..usize::from(entry[ENTRY - 1])]);
                copied = place + 1;
                mark &= mark - 1;
            }
        }
        at += BLOCK;
    }
    out.extend_from_slice(&bytes[copied..at]);
    put_dense(out, &bytes[at..], &mut scratch);
}

fn is_clean(block: &[u8]) -> bool {
    // No early end: so the compiler compares the whole block at once.
    !block.iter().fold(false, |dirty, byte| dirty | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'))
}

/// The highest bit of each byte that must be escaped, eight bytes to a word.
fn marks(block: &[u8]) -> [u64; BLOCK / WORD] {
    let mut marks = [0; BLOCK / WORD];
    for (mark, word) in marks.iter_mut().zip(block.chunks_exact(WORD)) {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        // Each sum reaches the highest bit unless its byte is the one looked for, and
        // cannot carry into the next byte.
        let low = word & each(0x7F);
        let no_control = low + each(0x60);
        let no_quote = (low ^ each(b'"')) + each(0x7F);
        let no_backslash = (low ^ each(b'\\')) + each(0x7F);
        *mark = !((no_control & no_quote & no_backslash) | word) & each(0x80);
    }
    marks
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD])
}

fn put_dense(out: &mut Vec<u8>, bytes: &[u8], scratch: &mut [u8; DENSE * 6 + ENTRY]) {
    let mut end = 0;
    for byte in bytes {
        let entry = ENTRIES[usize::from(*byte)];
        // The whole entry is written; the next one overwrites what is too much.
        scratch[end..end + ENTRY].copy_from_slice(&entry);
        end += usize::from(entry[ENTRY - 1]);
    }
    out.extend_from_slice(&scratch[..end]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same_as_serde(text: &str) {
        let mut ours = Vec::new();
        put(&mut ours, text);
        assert_eq!(String::from_utf8(ours).unwrap(), serde_json::to_string(text).unwrap());
    }

    #[test]
    fn every_character_of_one_byte_is_written_as_serde_does() {
        let all: String = (0..128_u8).map(char::from).collect();
        same_as_serde(&all);
        for byte in 0..128_u8 {
            let character = char::from(byte).to_string();
            same_as_serde(&character);
            same_as_serde(&character.repeat(100));
        }
    }

    #[test]
    fn escapes_at_every_place_of_a_block() {
        for length in 0..100 {
            let plain = "x".repeat(length);
            same_as_serde(&plain);
            for at in 0..length {
                for what in
                    ["\n", "\"", "\\", "\0", "\x1f", "\x7f", "é", "😀", "\u{2028}", "a\nb\nc\n", "\n\n\n\n\n"]
                {
                    same_as_serde(&format!("{}{what}{}", &plain[..at], &plain[at..]));
                }
            }
        }
    }

    #[test]
    fn any_mixture_is_written_as_serde_does() {
        let mut seed = 1_u32;
        let mut next = move |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        for _ in 0..2000 {
            let (length, rarity) = (next(1500), 1 + next(60));
            let text: String = (0..length)
                .map(|_| {
                    if next(rarity) == 0 {
                        ['\n', '"', '\\', '\0', '\u{1b}', 'é'][next(6) as usize]
                    } else {
                        'x'
                    }
                })
                .collect();
            same_as_serde(&text);
        }
    }
}
