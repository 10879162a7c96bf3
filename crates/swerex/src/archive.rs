//! Zip archives, as far as uploads of directories need them: stored and deflated files.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Largest file in an archive.
const MAX_FILE: usize = 1 << 30;
const END: [u8; 4] = *b"PK\x05\x06";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

#[derive(Debug)]
pub(crate) struct Entry {
    /// A directory's name ends with `/`.
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
    /// Unix permissions, where the archive has them.
    pub(crate) mode: Option<u32>,
}

/// Reads the directory at the end of the archive, and what it names.
pub(crate) fn entries(archive: &[u8]) -> Result<Vec<Entry>, String> {
    let end = archive.windows(4).rposition(|window| window == END).ok_or("File is not a zip file")?;
    let count = u16_at(archive, end + 10)?;
    let mut at = usize_at(archive, end + 16)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        if archive.get(at..at + 4) != Some(&ENTRY[..]) {
            return Err("Bad magic number for central directory".to_owned());
        }
        let name_length = usize::from(u16_at(archive, at + 28)?);
        let more = usize::from(u16_at(archive, at + 30)?) + usize::from(u16_at(archive, at + 32)?);
        let name = archive.get(at + 46..at + 46 + name_length).ok_or("Truncated file header")?;
        let mode = u32_at(archive, at + 38)? >> 16;
        entries.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            content: content(archive, at)?,
            mode: (mode & 0o777 != 0).then_some(mode),
        });
        at += 46 + name_length + more;
    }
    Ok(entries)
}

/// Of the file that the directory's entry at `at` describes.
fn content(archive: &[u8], at: usize) -> Result<Vec<u8>, String> {
    let method = u16_at(archive, at + 10)?;
    let (packed, size) = (usize_at(archive, at + 20)?, usize_at(archive, at + 24)?);
    let local = usize_at(archive, at + 42)?;
    let skipped = usize::from(u16_at(archive, local + 26)?) + usize::from(u16_at(archive, local + 28)?);
    let begin = local + 30 + skipped;
    let bytes = archive.get(begin..begin + packed).ok_or("Truncated file")?;
    match method {
        STORED => Ok(bytes.to_vec()),
        DEFLATED => {
            decompress_to_vec_with_limit(bytes, size.min(MAX_FILE)).map_err(|error| error.to_string())
        }
        other => Err(format!("That compression method ({other}) is not supported")),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, String> {
    let found = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    found.map(u16::from_le_bytes).ok_or_else(|| "Truncated archive".to_owned())
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, String> {
    let found = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    found.map(u32::from_le_bytes).ok_or_else(|| "Truncated archive".to_owned())
}

fn usize_at(bytes: &[u8], at: usize) -> Result<usize, String> {
    Ok(u32_at(bytes, at)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored file `a` with the text `hi`, made by Python's zipfile.
    fn archive() -> Vec<u8> {
        let mut bytes =
            b"PK\x03\x04\x14\0\0\0\0\0\0\0\x21\0\xac\x2a\x93\xd8\x02\0\0\0\x02\0\0\0\x01\0\0\0ahi".to_vec();
        let directory = bytes.len() as u32;
        bytes.extend(b"PK\x01\x02\x14\x03\x14\0\0\0\0\0\0\0\x21\0\xac\x2a\x93\xd8\x02\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\xed\x81\0\0\0\0a");
        let size = bytes.len() as u32 - directory;
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend(size.to_le_bytes());
        bytes.extend(directory.to_le_bytes());
        bytes.extend(b"\0\0");
        bytes
    }

    #[test]
    fn what_is_in_an_archive() {
        let found = entries(&archive()).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].content.as_slice()), ("a", &b"hi"[..]));
        assert_eq!(found[0].mode.map(|mode| mode & 0o777), Some(0o755));
    }

    #[test]
    fn a_damaged_archive_is_refused_wherever_it_is_cut() {
        let whole = archive();
        for end in 0..whole.len() - 2 {
            assert!(entries(&whole[..end]).is_err(), "{end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            // Whatever comes of it, it comes back.
            let _ = entries(&damaged);
        }
    }
}
