//! A stream of bytes each way that survives the loss of what carries it.
//!
//! Each end keeps what it sent until the other says that it has arrived. When a connection
//! breaks, the next one begins with how much each end has received, and both go on from
//! there: no byte is lost and none comes twice. Pure: bytes in, bytes out. The far relay
//! (`crates/host/src/far`) and the SSH backend (`crates/runtime/src/backend/ssh`) carry them.
//!
//! A connection begins with the daemon's [`Greeting`] and the relay's [`Reception`]. Then
//! frames: `D`, length (`u32`), bytes; `A`, bytes received so far (`u64`); `E`, the end.

use std::collections::VecDeque;

/// Bytes that may be on their way before the sender waits.
pub const MAX_UNACKED: usize = 4 * 1024 * 1024;
/// The receiver says what has arrived after so many bytes.
const ACK_EVERY: u64 = 64 * 1024;
/// Largest data frame.
const MAX_FRAME: usize = 64 * 1024;
const GREETING: usize = 1 + 16 + 8;

/// Names one stream pair; a new one begins anew.
pub type Token = [u8; 16];

/// What a daemon begins a connection with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    pub token: Token,
    /// Bytes that arrived at the daemon so far; `None` begins a new stream.
    pub received: Option<u64>,
}

impl Greeting {
    pub const BYTES: usize = GREETING;

    pub fn to_bytes(self) -> [u8; GREETING] {
        let mut bytes = [0; GREETING];
        bytes[0] = if self.received.is_some() { b'R' } else { b'N' };
        bytes[1..17].copy_from_slice(&self.token);
        bytes[17..].copy_from_slice(&self.received.unwrap_or(0).to_le_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8; GREETING]) -> Result<Greeting, Broken> {
        let (kind, rest) = bytes.split_first().ok_or(Broken)?;
        let (token, received) = rest.split_first_chunk::<16>().ok_or(Broken)?;
        let received = u64::from_le_bytes(received.try_into().map_err(|_| Broken)?);
        match kind {
            b'N' => Ok(Greeting { token: *token, received: None }),
            b'R' => Ok(Greeting { token: *token, received: Some(received) }),
            _ => Err(Broken),
        }
    }
}

/// What a relay answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// Bytes that arrived at the host so far.
    Continue(u64),
    /// There is no such stream, or no host.
    Gone,
}

impl Reception {
    pub const BYTES: usize = 9;

    pub fn to_bytes(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        match self {
            Reception::Continue(received) => {
                bytes[0] = b'K';
                bytes[1..].copy_from_slice(&received.to_le_bytes());
            }
            Reception::Gone => bytes[0] = b'G',
        }
        bytes
    }

    pub fn parse(bytes: &[u8; 9]) -> Result<Reception, Broken> {
        let (kind, received) = bytes.split_first().ok_or(Broken)?;
        match kind {
            b'K' => Ok(Reception::Continue(u64::from_le_bytes(received.try_into().map_err(|_| Broken)?))),
            b'G' => Ok(Reception::Gone),
            _ => Err(Broken),
        }
    }
}

/// What came cannot be made sense of; the connection is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// One end of the two streams.
#[derive(Debug, Default)]
pub struct ResumableEnd {
    /// Sent or to be sent, and not known to have arrived.
    unacked: VecDeque<u8>,
    /// Where in the stream that begins.
    base: u64,
    /// Up to where it was given to the present connection.
    sent: u64,
    /// Nothing comes after what is there.
    finished: bool,
    end_sent: bool,
    received: u64,
    /// What the other end was last told of that.
    told: u64,
    /// The other end has nothing more to say.
    ended: bool,
    /// Part of a frame.
    inbox: Vec<u8>,
}

impl ResumableEnd {
    pub fn new() -> ResumableEnd {
        ResumableEnd::default()
    }

    /// Bytes that arrived here so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How much may be pushed now.
    pub fn room(&self) -> usize {
        MAX_UNACKED.saturating_sub(self.unacked.len())
    }

    /// To be sent.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unacked.extend(bytes);
    }

    /// Nothing more will be pushed.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The other end has finished, and all of it has been taken.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Everything that was pushed has arrived.
    pub fn is_all_acked(&self) -> bool {
        self.unacked.is_empty()
    }

    /// A new connection; the other end has received so much.
    pub fn connected(&mut self, peer_received: u64) -> Result<(), Broken> {
        self.acked(peer_received)?;
        self.sent = peer_received;
        self.end_sent = false;
        self.inbox.clear();
        self.told = self.received;
        Ok(())
    }

    fn acked(&mut self, total: u64) -> Result<(), Broken> {
        let new = total.checked_sub(self.base).ok_or(Broken)?;
        let new = usize::try_from(new).map_err(|_| Broken)?;
        if new > self.unacked.len() {
            return Err(Broken);
        }
        self.unacked.drain(..new);
        self.base = total;
        self.sent = self.sent.max(total);
        Ok(())
    }

    /// Adds to `out` what is to be written to the connection now.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        if self.received - self.told >= ACK_EVERY || (self.ended && self.received > self.told) {
            out.push(b'A');
            out.extend_from_slice(&self.received.to_le_bytes());
            self.told = self.received;
        }
        let mut at = usize::try_from(self.sent - self.base).unwrap_or(usize::MAX);
        while at < self.unacked.len() && out.len() < MAX_UNACKED {
            let length = (self.unacked.len() - at).min(MAX_FRAME);
            out.push(b'D');
            out.extend_from_slice(&(length as u32).to_le_bytes());
            out.extend(self.unacked.range(at..at + length));
            at += length;
        }
        self.sent = self.base + at as u64;
        if self.finished && !self.end_sent && at == self.unacked.len() {
            out.push(b'E');
            self.end_sent = true;
        }
    }

    /// Takes bytes of the connection; what they bring is added to `data`.
    pub fn take_input(&mut self, bytes: &[u8], data: &mut Vec<u8>) -> Result<(), Broken> {
        self.inbox.extend_from_slice(bytes);
        let inbox = std::mem::take(&mut self.inbox);
        let mut rest = &inbox[..];
        while let Some((kind, body)) = rest.split_first() {
            match kind {
                b'A' => {
                    let Some((total, after)) = body.split_first_chunk::<8>() else { break };
                    self.acked(u64::from_le_bytes(*total))?;
                    rest = after;
                }
                b'D' => {
                    let Some((length, after)) = body.split_first_chunk::<4>() else { break };
                    let length = u32::from_le_bytes(*length) as usize;
                    if length > MAX_FRAME {
                        return Err(Broken);
                    }
                    let Some(piece) = after.get(..length) else { break };
                    data.extend_from_slice(piece);
                    self.received += length as u64;
                    rest = &after[length..];
                }
                b'E' => {
                    self.ended = true;
                    rest = body;
                }
                _ => return Err(Broken),
            }
        }
        self.inbox = rest.to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, the same each time.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % most
        }
    }

    #[test]
    fn every_byte_arrives_once_wherever_connections_break() {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let sent: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
            let (mut near, mut far) = (ResumableEnd::new(), ResumableEnd::new());
            let (mut pushed, mut arrived) = (0, Vec::new());
            let mut carried: VecDeque<u8> = VecDeque::new();
            let mut acks: VecDeque<u8> = VecDeque::new();
            while !far.has_ended() {
                let piece = dice.below(20_000).min(sent.len() - pushed).min(near.room());
                near.push(&sent[pushed..pushed + piece]);
                pushed += piece;
                if pushed == sent.len() {
                    near.finish();
                }
                let (mut out, mut back) = (Vec::new(), Vec::new());
                near.take_output(&mut out);
                far.take_output(&mut back);
                carried.extend(out);
                acks.extend(back);
                let take = dice.below(carried.len() + 1);
                let bytes: Vec<u8> = carried.drain(..take).collect();
                far.take_input(&bytes, &mut arrived).unwrap();
                let bytes: Vec<u8> = acks.drain(..).collect();
                near.take_input(&bytes, &mut Vec::new()).unwrap();
                if dice.below(5) == 0 {
                    (carried, acks) = (VecDeque::new(), VecDeque::new());
                    near.connected(far.received()).unwrap();
                    far.connected(near.received()).unwrap();
                }
            }
            assert!(arrived == sent, "seed {seed}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut end = ResumableEnd::new();
        assert_eq!(end.take_input(b"?", &mut Vec::new()), Err(Broken));
        assert_eq!(ResumableEnd::new().take_input(b"D\xff\xff\xff\xff", &mut Vec::new()), Err(Broken));
        assert_eq!(ResumableEnd::new().take_input(b"A\x01\0\0\0\0\0\0\0", &mut Vec::new()), Err(Broken));
        assert_eq!(ResumableEnd::new().connected(1), Err(Broken));
        let greeting = Greeting { token: [7; 16], received: Some(9) };
        assert_eq!(Greeting::parse(&greeting.to_bytes()), Ok(greeting));
        for reception in [Reception::Continue(5), Reception::Gone] {
            assert_eq!(Reception::parse(&reception.to_bytes()), Ok(reception));
        }
    }

    #[test]
    fn a_receiver_that_acknowledges_nothing_stops_the_sender() {
        let mut end = ResumableEnd::new();
        end.push(&vec![0; MAX_UNACKED]);
        assert_eq!(end.room(), 0);
        let mut out = Vec::new();
        end.take_output(&mut out);
        end.take_input(&[b"A", &5_u64.to_le_bytes()[..]].concat(), &mut Vec::new()).unwrap();
        assert_eq!(end.room(), 5);
    }
}
