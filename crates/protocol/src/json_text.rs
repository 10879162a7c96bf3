//! Writes text as a JSON string, fast.
//!
//! All streamed output passes through here, so it decides how fast a stream can be. Text is
//! copied block by block and then looked at: what follows the first byte to escape is simply
//! overwritten. Where such bytes are close together (`yes` prints a newline every other byte),
//! the next bytes are written one by one from a table, without branches.

/// Bytes copied and looked at together.
const BLOCK: usize = 32;
const WORD: usize = 8;
/// A byte to escape that comes so early after the last one is followed by more.
const CLOSE: usize = 4;
/// So many bytes are then written one by one.
const DENSE: usize = 64;
/// What is written is handed over from here on.
const FULL: usize = 1024;
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
    let mut written = Written { bytes: [0; FULL + DENSE * ENTRY], end: 0 };
    let mut rest = bytes;
    while let Some(block) = rest.first_chunk::<BLOCK>() {
        let clean = if is_clean(block) { BLOCK } else { first_to_escape(block) };
        written.put(block, clean);
        let count = match clean {
            BLOCK => BLOCK,
            0..CLOSE => DENSE.min(rest.len()),
            _ => clean + 1,
        };
        written.put_each(&rest[clean..count]);
        rest = &rest[count..];
        if written.end >= FULL {
            written.hand_over(out);
        }
    }
    written.put_each(rest);
    written.hand_over(out);
}

/// Room for one step from below [`FULL`] on: a block, or [`DENSE`] bytes in their longest form.
struct Written {
    bytes: [u8; FULL + DENSE * ENTRY],
    end: usize,
}

impl Written {
    /// The whole block is copied, of which `length` bytes count; the next ones overwrite what is too much.
    fn put(&mut self, block: &[u8; BLOCK], length: usize) {
        self.bytes[self.end..self.end + BLOCK].copy_from_slice(block);
        self.end += length;
    }

    fn put_each(&mut self, bytes: &[u8]) {
        // In a register, not in memory, from one byte to the next.
        let mut end = self.end;
        for byte in bytes {
            let entry = ENTRIES[usize::from(*byte)];
            self.bytes[end..end + ENTRY].copy_from_slice(&entry);
            end += usize::from(entry[ENTRY - 1]);
        }
        self.end = end;
    }

    fn hand_over(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes[..self.end]);
        self.end = 0;
    }
}

fn is_clean(block: &[u8; BLOCK]) -> bool {
    // No early end: so the compiler compares the whole block at once.
    !block.iter().fold(false, |dirty, byte| dirty | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'))
}

/// The place of the first byte that must be escaped, eight bytes looked at in one word.
fn first_to_escape(block: &[u8; BLOCK]) -> usize {
    for (place, word) in (0..).step_by(WORD).zip(block.as_chunks::<WORD>().0) {
        let word = u64::from_le_bytes(*word);
        // Each sum reaches the highest bit unless its byte is the one looked for, and
        // cannot carry into the next byte.
        let low = word & each(0x7F);
        let no_control = low + each(0x60);
        let no_quote = (low ^ each(b'"')) + each(0x7F);
        let no_backslash = (low ^ each(b'\\')) + each(0x7F);
        let mark = !((no_control & no_quote & no_backslash) | word) & each(0x80);
        if mark != 0 {
            return place + (mark.trailing_zeros() / 8) as usize;
        }
    }
    BLOCK
}

const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD])
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
    fn long_forms_fit_wherever_the_buffer_ends() {
        for plain in FULL - DENSE * ENTRY..FULL + BLOCK {
            for escaped in [DENSE - 1, DENSE, DENSE + 1, DENSE + BLOCK - 1] {
                same_as_serde(&("x".repeat(plain) + &"\u{1}".repeat(escaped)));
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
