//! What shells say, as text that loses nothing.
//!
//! Names and values need not be UTF-8. A byte that is none stands as a character from
//! the end of Unicode's private use; so does every byte of such a character itself.
//! All that comes from a shell is read by [`of`] and all that goes to it is written
//! by [`bytes`]; people are shown what [`shown`] makes of it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The byte 0x80 stands as U+10FF80, 0xFF as U+10FFFF.
const BASE: u32 = 0x10_ff00;

pub fn of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| stands_for(c).is_none()) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let stand_in = |byte: &u8| char::from_u32(BASE + u32::from(*byte));
    let mut out = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match stands_for(c) {
                Some(_) => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes().iter().filter_map(stand_in)),
                None => out.push(c),
            }
        }
        out.extend(chunk.invalid().iter().filter_map(stand_in));
    }
    out
}

fn stands_for(c: char) -> Option<u8> {
    let byte = u8::try_from(u32::from(c).checked_sub(BASE)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if text.chars().all(|c| stands_for(c).is_none()) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len());
    for c in text.chars() {
        match stands_for(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(out)
}

pub fn os(text: &str) -> OsString {
    OsString::from_vec(bytes(text).into_owned())
}

/// For JSON and for people: what is no text becomes U+FFFD.
pub fn shown(text: &str) -> String {
    String::from_utf8_lossy(&bytes(text)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let cases: [&[u8]; 6] =
            [b"", b"plain", "ä→\u{10ff80}".as_bytes(), b"\xff\xfe/\x80a", b"a\xf4\x8f", &[0xc3, 0x28]];
        for case in cases {
            assert_eq!(&*bytes(&of(case)), case);
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(&*bytes(&of(&all)), all);
        assert_eq!(shown(&of(b"/a\xffb")), "/a\u{fffd}b");
    }
}
