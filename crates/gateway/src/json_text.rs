//! Writes text as a JSON string, fast.
//!
//! All streamed output passes through here, so it decides how fast a stream can be:
//! blocks without anything to escape are copied whole, the others byte by byte from a
//! table and without branches (`yes` prints a newline every other byte).

/// Bytes looked at together.
const BLOCK: usize = 32;
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
pub(crate) fn put(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + text.len() / 8 + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let clean = clean_blocks(rest);
        out.extend_from_slice(&rest[..clean]);
        let (block, after) = rest[clean..].split_at(BLOCK.min(rest.len() - clean));
        put_block(out, block);
        rest = after;
    }
    out.push(b'"');
}

/// The length of the blocks at the beginning that can be copied as they are.
fn clean_blocks(bytes: &[u8]) -> usize {
    let is_clean = |block: &&[u8]| {
        // No early end: so the compiler compares the whole block at once.
        !block.iter().fold(false, |dirty, byte| dirty | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\'))
    };
    bytes.chunks_exact(BLOCK).take_while(is_clean).count() * BLOCK
}

fn put_block(out: &mut Vec<u8>, block: &[u8]) {
    let mut escaped = [0; BLOCK * 6 + ENTRY];
    let mut end = 0;
    for byte in block {
        let entry = &ENTRIES[usize::from(*byte)];
        // The whole entry is written; the next one overwrites what is too much.
        escaped[end..end + ENTRY].copy_from_slice(entry);
        end += usize::from(entry[ENTRY - 1]);
    }
    out.extend_from_slice(&escaped[..end]);
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
                for what in ["\n", "\"", "\\", "\0", "é", "😀", "\u{2028}"] {
                    same_as_serde(&format!("{}{what}{}", &plain[..at], &plain[at..]));
                }
            }
        }
    }
}
