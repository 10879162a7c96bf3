//! The bytes that a relay carries: all it sees beside the two addresses and a length.
//!
//! `TRL1`, a kind byte, for a first message the sender's card behind a `u16` length,
//! then the Olm message. A packet's id is the hash of the Olm message alone, so that
//! the same ciphertext in other wrapping is still known.

use std::fmt;

use sha2::{Digest, Sha256};
use vodozemac::olm::{Message, OlmMessage, PreKeyMessage};

use super::card::DeviceCard;

const MAGIC: &[u8; 4] = b"TRL1";
const FIRST: u8 = 0;
const LATER: u8 = 1;

/// Hex of the hash of the ciphertext.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(String);

impl PacketId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
pub enum Packet {
    First { card: DeviceCard, message: PreKeyMessage },
    Later(Message),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a packet of ours: {0}")]
pub struct BadPacket(&'static str);

impl Packet {
    pub fn new(message: OlmMessage, card: &DeviceCard) -> Packet {
        match message {
            OlmMessage::PreKey(message) => Packet::First { card: card.clone(), message },
            OlmMessage::Normal(message) => Packet::Later(message),
        }
    }

    pub fn id(&self) -> PacketId {
        let (kind, bytes) = match self {
            Packet::First { card: _, message } => (FIRST, message.to_bytes()),
            Packet::Later(message) => (LATER, message.to_bytes()),
        };
        let mut hash = Sha256::new();
        hash.update([kind]);
        hash.update(bytes);
        PacketId(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, BadPacket> {
        let mut out = MAGIC.to_vec();
        match self {
            Packet::First { card, message } => {
                let card = serde_json::to_vec(card).map_err(|_| BadPacket("the card cannot be written"))?;
                let length = u16::try_from(card.len()).map_err(|_| BadPacket("the card is too long"))?;
                out.push(FIRST);
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&card);
                out.extend_from_slice(&message.to_bytes());
            }
            Packet::Later(message) => {
                out.push(LATER);
                out.extend_from_slice(&message.to_bytes());
            }
        }
        Ok(out)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Packet, BadPacket> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(BadPacket("it does not begin as one"))?;
        match rest.split_first() {
            Some((&FIRST, rest)) => {
                let short = BadPacket("it is cut short");
                let (length, rest) = rest.split_first_chunk::<2>().ok_or(short.clone())?;
                let (card, message) =
                    rest.split_at_checked(u16::from_be_bytes(*length) as usize).ok_or(short)?;
                Ok(Packet::First {
                    card: serde_json::from_slice(card).map_err(|_| BadPacket("its card is malformed"))?,
                    message: PreKeyMessage::from_bytes(message)
                        .map_err(|_| BadPacket("its first message is malformed"))?,
                })
            }
            Some((&LATER, rest)) => Message::from_bytes(rest)
                .map(Packet::Later)
                .map_err(|_| BadPacket("its message is malformed")),
            _ => Err(BadPacket("its kind is unknown")),
        }
    }
}
