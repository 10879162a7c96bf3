//! End-to-end encryption: Olm between the devices of two agents.
//!
//! Pure but for randomness: keys and ratchets come in as stored bytes and go back as
//! stored bytes; the caller keeps them in one transaction with what they sealed or
//! opened. A ratchet that sealed something is never used again from an older copy.

mod card;
mod device;
mod packet;

pub use card::{BadCard, Bundle, DeviceCard, SignedKey, VerifiedCard};
pub use device::{Device, OpenError, Ratchet, SealError};
pub use packet::{BadPacket, Packet, PacketId};

#[cfg(test)]
mod tests;
