//! Lines from any byte stream, never more than one limit's worth in memory.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

const FIRST_READ: usize = 16 * 1024;
/// A buffer that grew beyond this for one long line is given back.
const KEPT_BUFFER: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct LineReader<R> {
    reader: R,
    limit: usize,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// No end of line before this.
    scanned: usize,
    ended: bool,
}

/// What comes next on a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextLine<'a> {
    /// Without its end; the last line needs none.
    Line(&'a [u8]),
    /// Nothing after it can be told apart.
    TooLong,
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(reader: R, limit: usize) -> LineReader<R> {
        LineReader { reader, limit, buffer: Vec::new(), start: 0, scanned: 0, ended: false }
    }

    /// The next line that is not empty. Cancel safe: nothing read is lost.
    pub(crate) async fn next(&mut self) -> io::Result<NextLine<'_>> {
        loop {
            match self.find() {
                Some(range) if range.is_empty() => {}
                Some(range) => return Ok(NextLine::Line(&self.buffer[range])),
                None if self.buffer.len() - self.start > self.limit => return Ok(NextLine::TooLong),
                None if self.ended => return Ok(NextLine::End),
                None => self.fill().await?,
            }
        }
    }

    /// Reads and forgets until the line that is too long ends.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        loop {
            if memchr::memchr(b'\n', &self.buffer[self.start..]).is_some() {
                return Ok(());
            }
            self.buffer.clear();
            self.start = 0;
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Ok(());
            }
        }
    }

    /// The next line in the buffer, trimmed; what it takes is gone from there.
    fn find(&mut self) -> Option<std::ops::Range<usize>> {
        let end = match memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            Some(found) => self.scanned + found,
            None if self.ended && self.start < self.buffer.len() => self.buffer.len(),
            None => {
                self.scanned = self.buffer.len();
                return None;
            }
        };
        if end - self.start > self.limit {
            self.scanned = end;
            return None;
        }
        let line = self.start..end;
        self.start = (end + 1).min(self.buffer.len());
        self.scanned = self.start;
        let trimmed = self.buffer[line.clone()].trim_ascii();
        let leading = self.buffer[line.clone()].len() - self.buffer[line.clone()].trim_ascii_start().len();
        Some(line.start + leading..line.start + leading + trimmed.len())
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
            if self.buffer.len() <= KEPT_BUFFER {
                self.buffer.shrink_to(KEPT_BUFFER);
            }
        }
        if self.buffer.capacity() - self.buffer.len() < FIRST_READ / 4 {
            self.buffer.reserve(self.buffer.len().max(FIRST_READ));
        }
        if self.reader.read_buf(&mut self.buffer).await? == 0 {
            self.ended = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(input, limit);
        let mut found = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                NextLine::Line(line) => found.push(String::from_utf8(line.to_vec()).unwrap()),
                NextLine::TooLong => {
                    found.push("<too long>".to_owned());
                    return found;
                }
                NextLine::End => return found,
            }
        }
    }

    #[tokio::test]
    async fn lines_however_they_end() {
        let long = "x".repeat(100_000);
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a", &["a"]),
            ("a\n", &["a"]),
            ("a\r\nb\r\n", &["a", "b"]),
            ("\n\n  \n\r\na\n\n", &["a"]),
            (" a b \nc", &["a b", "c"]),
            (&long, &[&long]),
        ];
        for (input, expected) in cases {
            assert_eq!(lines(input.as_bytes(), 1_000_000).await, *expected, "{input:.40?}");
        }
    }

    #[tokio::test]
    async fn a_line_beyond_the_limit_is_told_and_not_kept() {
        assert_eq!(lines(b"1234\n12345\n1\n", 4).await, ["1234", "<too long>"]);
        assert_eq!(lines(b"12345", 4).await, ["<too long>"]);
        let long = vec![b'x'; 50_000_000];
        let mut reader = LineReader::new(&long[..], 1_000_000);
        assert_eq!(reader.next().await.unwrap(), NextLine::TooLong);
        assert!(reader.buffer.capacity() < 4_000_000);
        reader.drain().await.unwrap();
    }

    #[tokio::test]
    async fn bytes_that_come_one_by_one() {
        let (mut writer, reader) = tokio::io::duplex(1);
        let writing = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut writer, b"ab\n\ncd").await.unwrap();
        });
        let mut reader = LineReader::new(reader, 10);
        assert_eq!(reader.next().await.unwrap(), NextLine::Line(b"ab"));
        assert_eq!(reader.next().await.unwrap(), NextLine::Line(b"cd"));
        assert_eq!(reader.next().await.unwrap(), NextLine::End);
        writing.await.unwrap();
    }
}
