//! What an agent says in public about its device, signed by its identity.

use serde::{Deserialize, Serialize};
use vodozemac::{Curve25519PublicKey, Ed25519PublicKey, Ed25519Signature};

use crate::identity::{Address, Identity};

/// "This device key is mine": enough to authenticate a first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCard {
    pub v: u32,
    pub identity: String,
    pub device: String,
    /// Grows when the state was restored from a backup; older ratchets are not to be used.
    pub epoch: u64,
    pub signature: String,
}

/// One key that starts a session, signed so that a relay cannot slip in its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedKey {
    /// Never used twice: the epoch, a dot, and the account's own counter.
    pub id: String,
    pub key: String,
    pub signature: String,
}

/// What the relay's directory keeps for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    pub card: DeviceCard,
    /// Used when the one-time keys are gone; rotated weekly.
    pub fallback: SignedKey,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCard {
    #[error("a key of the card is malformed")]
    Malformed,
    #[error("the card belongs to {found}, not to {expected}")]
    WrongAddress { expected: Address, found: Address },
    #[error("the card's signature is wrong")]
    Signature,
    #[error("the card has version {0}, which this build does not know")]
    Version(u32),
}

/// A card whose signature was checked and whose identity hashes to the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedCard {
    pub address: Address,
    pub device: Curve25519PublicKey,
    pub epoch: u64,
    identity: Ed25519PublicKey,
}

impl DeviceCard {
    pub fn sign(identity: &Identity, device: Curve25519PublicKey, epoch: u64) -> DeviceCard {
        let signed = card_bytes(&identity.public(), &device, epoch);
        DeviceCard {
            v: 1,
            identity: identity.public().to_base64(),
            device: device.to_base64(),
            epoch,
            signature: identity.sign(&signed).to_base64(),
        }
    }

    pub fn verify(&self, expected: &Address) -> Result<VerifiedCard, BadCard> {
        if self.v != 1 {
            return Err(BadCard::Version(self.v));
        }
        let identity = Ed25519PublicKey::from_base64(&self.identity).map_err(|_| BadCard::Malformed)?;
        let device = Curve25519PublicKey::from_base64(&self.device).map_err(|_| BadCard::Malformed)?;
        let signature = Ed25519Signature::from_base64(&self.signature).map_err(|_| BadCard::Malformed)?;
        let found = Address::of(&identity);
        if found != *expected {
            return Err(BadCard::WrongAddress { expected: expected.clone(), found });
        }
        identity
            .verify(&card_bytes(&identity, &device, self.epoch), &signature)
            .map_err(|_| BadCard::Signature)?;
        Ok(VerifiedCard { address: found, device, epoch: self.epoch, identity })
    }
}

impl SignedKey {
    pub(super) fn sign(
        identity: &Identity,
        device: &Curve25519PublicKey,
        id: String,
        key: Curve25519PublicKey,
    ) -> SignedKey {
        let signature = identity.sign(&key_bytes(device, &id, &key)).to_base64();
        SignedKey { id, key: key.to_base64(), signature }
    }

    pub fn verify(&self, card: &VerifiedCard) -> Result<Curve25519PublicKey, BadCard> {
        let key = Curve25519PublicKey::from_base64(&self.key).map_err(|_| BadCard::Malformed)?;
        let signature = Ed25519Signature::from_base64(&self.signature).map_err(|_| BadCard::Malformed)?;
        card.identity
            .verify(&key_bytes(&card.device, &self.id, &key), &signature)
            .map_err(|_| BadCard::Signature)?;
        Ok(key)
    }
}

fn card_bytes(identity: &Ed25519PublicKey, device: &Curve25519PublicKey, epoch: u64) -> Vec<u8> {
    let mut bytes = b"trl device v1\0".to_vec();
    bytes.extend_from_slice(identity.as_bytes());
    bytes.extend_from_slice(device.as_bytes());
    bytes.extend_from_slice(&epoch.to_be_bytes());
    bytes
}

fn key_bytes(device: &Curve25519PublicKey, id: &str, key: &Curve25519PublicKey) -> Vec<u8> {
    let mut bytes = b"trl one-time key v1\0".to_vec();
    bytes.extend_from_slice(device.as_bytes());
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(id.as_bytes());
    bytes
}
