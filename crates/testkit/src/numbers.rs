//! Output in which no two places look alike, so that a shifted, lost or repeated part of any length is noticed.

/// Numbers of nine digits, one a line: enough for nine gigabytes.
const FIRST: u64 = 100_000_000;
const LINE: u64 = 10;

/// A command that prints so many bytes of them.
pub fn command(bytes: u64) -> String {
    format!("seq {FIRST} 999999999 | head -c {bytes}")
}

/// What it prints from one offset up to another.
pub fn text(from: u64, to: u64) -> Vec<u8> {
    let lines = from / LINE..to.div_ceil(LINE);
    let whole: String = lines.map(|line| format!("{}\n", FIRST + line)).collect();
    let start = (from % LINE) as usize;
    whole.as_bytes()[start..start + (to - from) as usize].to_vec()
}

/// Fails unless these bytes are what it prints from this offset on.
#[track_caller]
pub fn assert_at(offset: u64, bytes: &[u8]) {
    let expected = text(offset, offset + bytes.len() as u64);
    let differs = bytes.iter().zip(&expected).position(|(is, should)| is != should);
    assert_eq!(differs, None, "what is at {offset} differs from there on");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_what_seq_prints() {
        let printed = std::process::Command::new("sh").args(["-c", &command(1234)]).output().unwrap().stdout;
        assert_eq!(text(0, 1234), printed);
        assert_eq!(text(57, 63), printed[57..63]);
        assert_at(1000, &printed[1000..]);
    }
}
