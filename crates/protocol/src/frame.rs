//! Frames of the host's wire: `u32` length (little endian), one kind byte, payload.
//!
//! Control messages are JSON, so that old and new versions can read each other;
//! output travels as raw bytes behind a fixed header.

use crate::exec::Stream;

/// Longest frame: a request line with some room.
pub const MAX_FRAME: usize = crate::limits::MAX_LINE_BYTES * 2;
const JSON: u8 = b'J';
const DATA: u8 = b'D';
const DATA_HEADER: usize = 8 + 1 + 8;

/// One frame, borrowed from the receive buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    Json(&'a [u8]),
    Data { req: u64, stream: Stream, offset: u64, bytes: &'a [u8] },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadFrame(pub &'static str);

/// Reads the first frame of `buffer`: the frame and how many bytes it took, or
/// `None` if it is not whole yet.
pub fn split(buffer: &[u8]) -> Result<Option<(Frame<'_>, usize)>, BadFrame> {
    let Some((length, rest)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_FRAME {
        return Err(BadFrame("a frame's length is out of range"));
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let frame = match body.split_first() {
        Some((&JSON, json)) => Frame::Json(json),
        Some((&DATA, data)) => read_data(data)?,
        _ => return Err(BadFrame("unknown kind of frame")),
    };
    Ok(Some((frame, 4 + length)))
}

fn read_data(data: &[u8]) -> Result<Frame<'_>, BadFrame> {
    let short = BadFrame("a data frame is too short");
    let (req, rest) = data.split_first_chunk::<8>().ok_or(short)?;
    let (stream, rest) = rest.split_first().ok_or(short)?;
    let (offset, bytes) = rest.split_first_chunk::<8>().ok_or(short)?;
    let stream = match stream {
        1 => Stream::Stdout,
        2 => Stream::Stderr,
        _ => return Err(BadFrame("unknown stream in a data frame")),
    };
    Ok(Frame::Data { req: u64::from_le_bytes(*req), stream, offset: u64::from_le_bytes(*offset), bytes })
}

pub fn put_json(out: &mut Vec<u8>, message: &impl serde::Serialize) -> Result<(), serde_json::Error> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(JSON);
    serde_json::to_writer(&mut *out, message)?;
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

pub fn put_data(out: &mut Vec<u8>, req: u64, stream: Stream, offset: u64, bytes: &[u8]) {
    out.extend_from_slice(&((1 + DATA_HEADER + bytes.len()) as u32).to_le_bytes());
    out.push(DATA);
    out.extend_from_slice(&req.to_le_bytes());
    out.push(stream.index() as u8 + 1);
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_whole_whatever_the_cut() {
        let mut wire = Vec::new();
        put_json(&mut wire, &serde_json::json!({"a": 1})).unwrap();
        put_data(&mut wire, 7, Stream::Stderr, 42, b"\0\xff");
        for cut in 0..wire.len() {
            if cut < 12 {
                assert_eq!(split(&wire[..cut]).unwrap(), None);
            }
        }
        let (first, used) = split(&wire).unwrap().unwrap();
        assert_eq!(first, Frame::Json(br#"{"a":1}"#));
        let (second, rest) = split(&wire[used..]).unwrap().unwrap();
        assert_eq!(second, Frame::Data { req: 7, stream: Stream::Stderr, offset: 42, bytes: b"\0\xff" });
        assert_eq!(used + rest, wire.len());
    }

    #[test]
    fn garbage_is_refused() {
        assert!(split(&[0, 0, 0, 0]).is_err());
        assert!(split(&[255, 255, 255, 255]).is_err());
        assert!(split(&[1, 0, 0, 0, b'?']).is_err());
        assert!(split(&[2, 0, 0, 0, b'D', 1]).is_err());
    }
}
