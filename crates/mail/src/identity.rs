//! Who an agent is: an Ed25519 key, and an address that is its hash.
//!
//! The address alone authenticates: whoever knows it can check that a device key
//! was vouched for by its owner. The key signs device cards and one-time keys and
//! nothing else; it never encrypts.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vodozemac::{Ed25519PublicKey, Ed25519SecretKey, Ed25519Signature};
use zeroize::Zeroizing;

const LENGTH: usize = 32;
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// 160 bits of hash as 32 of `a-z2-7`: safe in paths, subjects and URLs.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address: 32 characters of a-z and 2-7")]
pub struct BadAddress(String);

impl Address {
    pub fn of(key: &Ed25519PublicKey) -> Address {
        let mut hash = Sha256::new();
        hash.update(b"trl address v1\0");
        hash.update(key.as_bytes());
        Address(base32(&hash.finalize()[..20]))
    }

    pub fn parse(text: &str) -> Result<Address, BadAddress> {
        if Address::looks_like(text) {
            Ok(Address(text.to_owned()))
        } else {
            Err(BadAddress(text.chars().take(64).collect()))
        }
    }

    pub fn looks_like(text: &str) -> bool {
        text.len() == LENGTH && text.bytes().all(|b| ALPHABET.contains(&b))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(LENGTH);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in bytes {
        bits = (bits << 8) | u32::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            text.push(char::from(ALPHABET[(bits >> held) as usize & 31]));
        }
    }
    text
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Address {
    type Error = BadAddress;
    fn try_from(text: String) -> Result<Address, BadAddress> {
        Address::parse(&text)
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.0
    }
}

/// The secret half; vodozemac zeroizes it when it is dropped.
pub struct Identity {
    secret: Ed25519SecretKey,
    address: Address,
}

impl Identity {
    pub fn generate() -> Identity {
        Identity::from_secret(Ed25519SecretKey::new())
    }

    fn from_secret(secret: Ed25519SecretKey) -> Identity {
        let address = Address::of(&secret.public_key());
        Identity { secret, address }
    }

    pub fn from_bytes(bytes: &[u8; 32]) -> Identity {
        Identity::from_secret(Ed25519SecretKey::from_slice(bytes))
    }

    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut boxed = self.secret.to_bytes();
        let bytes = Zeroizing::new(boxed.to_vec());
        zeroize::Zeroize::zeroize(boxed.as_mut());
        bytes
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn public(&self) -> Ed25519PublicKey {
        self.secret.public_key()
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Ed25519Signature {
        self.secret.sign(message)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { secret: _, address } = self;
        f.debug_struct("Identity").field("address", address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_hash_of_the_key_and_nothing_else_parses() {
        let identity = Identity::from_bytes(&[7; 32]);
        let again = Identity::from_bytes(identity.to_bytes().as_slice().try_into().unwrap());
        assert_eq!(identity.address(), again.address());
        assert_eq!(Address::parse(identity.address().as_str()).unwrap(), *identity.address());
        for bad in ["", "alice", "../../../../../../../../../../etc", &"A".repeat(32), &"1".repeat(32)] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_tells_no_secret() {
        assert_eq!(
            format!("{:?}", Identity::from_bytes(&[7; 32])),
            format!("Identity {{ address: {}, .. }}", Identity::from_bytes(&[7; 32]).address())
        );
    }
}
