//! Zip archives, as far as uploads of directories need them: stored and deflated files, also in the form for many or
//! large files (zip64).

use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// Largest file in an archive.
const MAX_FILE: usize = 1 << 30;
const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_64_LENGTH: usize = 20;
const ENTRY: [u8; 4] = *b"PK\x01\x02";
/// The extra field with the numbers that do not fit into an entry.
const EXTRA_64: u16 = 1;
/// In place of a number that does not fit.
const ELSEWHERE: u32 = u32::MAX;
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
    let (count, mut at) = directory(archive)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        if bytes_at(archive, at, 4)? != ENTRY {
            return Err("Bad magic number for central directory".to_owned());
        }
        let name_length = usize::from(u16_at(archive, at + 28)?);
        let extra_length = usize::from(u16_at(archive, at + 30)?);
        let comment_length = usize::from(u16_at(archive, at + 32)?);
        let name = bytes_at(archive, at + 46, name_length)?;
        let extra = bytes_at(archive, at + 46 + name_length, extra_length)?;
        let mode = u32_at(archive, at + 38)? >> 16;
        entries.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            content: content(archive, at, extra)?,
            mode: (mode & 0o777 != 0).then_some(mode),
        });
        at += 46 + name_length + extra_length + comment_length;
    }
    Ok(entries)
}

/// How many entries the directory has, and where it begins.
fn directory(archive: &[u8]) -> Result<(u64, usize), String> {
    let end = archive.windows(4).rposition(|window| window == END).ok_or("File is not a zip file")?;
    let (count, begin) = (u16_at(archive, end + 10)?, u32_at(archive, end + 16)?);
    let locator = end.checked_sub(LOCATOR_64_LENGTH).filter(|at| archive[*at..].starts_with(&LOCATOR_64));
    let Some(locator) = locator else { return Ok((u64::from(count), begin as usize)) };
    let end = usize_at(archive, locator + 8)?;
    if bytes_at(archive, end, 4)? != END_64 {
        return Err("Bad magic number for the end of the central directory".to_owned());
    }
    Ok((u64_at(archive, end + 32)?, usize_at(archive, end + 48)?))
}

/// Of the file that the directory's entry at `at` describes.
fn content(archive: &[u8], at: usize, extra: &[u8]) -> Result<Vec<u8>, String> {
    let method = u16_at(archive, at + 10)?;
    // In the order in which the extra field has them.
    let mut large = Large::of(extra);
    let size = large.or(u32_at(archive, at + 24)?)?;
    let packed = large.or(u32_at(archive, at + 20)?)?;
    let local = large.or(u32_at(archive, at + 42)?)?;
    let name_length = usize::from(u16_at(archive, local.saturating_add(26))?);
    let extra_length = usize::from(u16_at(archive, local.saturating_add(28))?);
    let bytes = bytes_at(archive, local.saturating_add(30 + name_length + extra_length), packed)?;
    match method {
        STORED => Ok(bytes.to_vec()),
        DEFLATED => {
            decompress_to_vec_with_limit(bytes, size.min(MAX_FILE)).map_err(|error| error.to_string())
        }
        other => Err(format!("That compression method ({other}) is not supported")),
    }
}

/// The numbers of an entry that are too large for it, in their order.
struct Large<'a>(&'a [u8]);

impl Large<'_> {
    /// From the extra fields of an entry: each has a kind, a length and its content.
    fn of(mut extra: &[u8]) -> Large<'_> {
        while let (Ok(kind), Ok(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
            let Ok(content) = bytes_at(extra, 4, usize::from(length)) else { break };
            if kind == EXTRA_64 {
                return Large(content);
            }
            extra = &extra[4 + content.len()..];
        }
        Large(&[])
    }

    /// The number, or the next of these if it stands for one.
    fn or(&mut self, number: u32) -> Result<usize, String> {
        if number != ELSEWHERE {
            return Ok(number as usize);
        }
        let number = usize_at(self.0, 0)?;
        self.0 = &self.0[8..];
        Ok(number)
    }
}

fn bytes_at(bytes: &[u8], at: usize, length: usize) -> Result<&[u8], String> {
    let end = at.checked_add(length);
    end.and_then(|end| bytes.get(at..end)).ok_or_else(|| "Truncated archive".to_owned())
}

fn number_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], String> {
    bytes_at(bytes, at, N)?.try_into().map_err(|_| "Truncated archive".to_owned())
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, String> {
    number_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, String> {
    number_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, String> {
    number_at(bytes, at).map(u64::from_le_bytes)
}

fn usize_at(bytes: &[u8], at: usize) -> Result<usize, String> {
    usize::try_from(u64_at(bytes, at)?).map_err(|_| "Truncated archive".to_owned())
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

    /// The same with every number in its place for large archives.
    fn large_archive() -> Vec<u8> {
        let mut bytes =
            b"PK\x03\x04\x2d\0\0\0\0\0\0\0\x21\0\xac\x2a\x93\xd8\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\x14\0a".to_vec();
        bytes.extend(b"\x01\0\x10\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0hi");
        let directory = bytes.len() as u64;
        bytes.extend(
            b"PK\x01\x02\x2d\x03\x2d\0\0\0\0\0\0\0\x21\0\xac\x2a\x93\xd8\xff\xff\xff\xff\xff\xff\xff\xff",
        );
        bytes.extend(b"\x01\0\x21\0\0\0\0\0\0\0\0\0\xed\x81\xff\xff\xff\xffa");
        // Another extra field comes first.
        bytes.extend(b"\x55\x54\x01\0x\x01\0\x18\0");
        bytes.extend([2_u64, 2, 0].map(u64::to_le_bytes).concat());
        let end = bytes.len() as u64;
        bytes.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\x03\x2d\0\0\0\0\0\0\0\0\0");
        bytes.extend([1, 1, end - directory, directory].map(u64::to_le_bytes).concat());
        bytes.extend(b"PK\x06\x07\0\0\0\0");
        bytes.extend(end.to_le_bytes());
        bytes.extend(b"\x01\0\0\0PK\x05\x06\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0");
        bytes
    }

    #[test]
    fn an_archive_for_many_or_large_files() {
        let found = entries(&large_archive()).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].content.as_slice()), ("a", &b"hi"[..]));
    }

    #[test]
    fn a_damaged_archive_is_refused_wherever_it_is_cut() {
        for whole in [archive(), large_archive()] {
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
}
