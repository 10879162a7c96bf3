//! An agent's Olm device and the ratchets it shares with others.

use std::fmt;

use vodozemac::Curve25519PublicKey;
use vodozemac::olm::{
    Account, AccountPickle, OlmMessage, PreKeyMessage, Session, SessionConfig, SessionPickle,
};
use zeroize::Zeroizing;

use super::card::{BadCard, DeviceCard, SignedKey, VerifiedCard};
use crate::identity::Identity;

/// The long-lived device key, one-time keys and fallback keys.
pub struct Device(Account);

/// One double ratchet with one device of a peer.
pub struct Ratchet(Session);

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Card(#[from] BadCard),
    #[error("the peer's keys cannot be used: {0}")]
    Keys(String),
    #[error("stored keys cannot be read: {0}")]
    Stored(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the one-time key it was sealed with is gone")]
    LostKey,
    #[error("it was opened before")]
    Replayed,
    #[error("no ratchet opens it: {0}")]
    Undecryptable(String),
    #[error(transparent)]
    Card(#[from] BadCard),
}

impl Device {
    pub fn generate() -> Device {
        Device(Account::new())
    }

    pub fn restore(bytes: &[u8]) -> Result<Device, SealError> {
        let pickle: AccountPickle = serde_json::from_slice(bytes).map_err(unreadable)?;
        Ok(Device(Account::from_pickle(pickle)))
    }

    pub fn store(&self) -> Result<Zeroizing<Vec<u8>>, SealError> {
        Ok(Zeroizing::new(serde_json::to_vec(&self.0.pickle()).map_err(unreadable)?))
    }

    pub fn card(&self, identity: &Identity, epoch: u64) -> DeviceCard {
        DeviceCard::sign(identity, self.0.curve25519_key(), epoch)
    }

    /// New one-time keys, ready to be published.
    pub fn one_time_keys(&mut self, identity: &Identity, epoch: u64, count: usize) -> Vec<SignedKey> {
        self.0.generate_one_time_keys(count);
        let device = self.0.curve25519_key();
        let mut keys: Vec<_> = self.0.one_time_keys().into_iter().collect();
        keys.sort_by_key(|(id, _)| id.to_base64());
        let signed = keys
            .into_iter()
            .map(|(id, key)| SignedKey::sign(identity, &device, format!("{epoch}.{}", id.to_base64()), key))
            .collect();
        self.0.mark_keys_as_published();
        signed
    }

    /// A new fallback key; the one before it still opens what is on its way.
    pub fn fallback_key(&mut self, identity: &Identity, epoch: u64) -> Option<SignedKey> {
        self.0.generate_fallback_key();
        let device = self.0.curve25519_key();
        let signed =
            self.0.fallback_key().into_iter().next().map(|(id, key)| {
                SignedKey::sign(identity, &device, format!("{epoch}.f{}", id.to_base64()), key)
            });
        self.0.mark_keys_as_published();
        signed
    }

    /// A ratchet to a peer whose card and key were fetched from the directory.
    pub fn start(&self, card: &VerifiedCard, key: &SignedKey) -> Result<Ratchet, SealError> {
        let key = key.verify(card)?;
        self.0
            .create_outbound_session(SessionConfig::version_1(), card.device, key)
            .map(Ratchet)
            .map_err(|error| SealError::Keys(error.to_string()))
    }

    /// A ratchet from a peer's first message, and what that message said.
    pub fn accept(
        &mut self,
        peer: &Curve25519PublicKey,
        message: &PreKeyMessage,
    ) -> Result<(Ratchet, Zeroizing<Vec<u8>>), OpenError> {
        use vodozemac::olm::SessionCreationError as Refused;
        match self.0.create_inbound_session(SessionConfig::version_1(), *peer, message) {
            Ok(created) => Ok((Ratchet(created.session), Zeroizing::new(created.plaintext))),
            Err(Refused::MissingOneTimeKey(_)) => Err(OpenError::LostKey),
            Err(error) => Err(OpenError::Undecryptable(error.to_string())),
        }
    }
}

impl Ratchet {
    pub fn restore(bytes: &[u8]) -> Result<Ratchet, SealError> {
        let pickle: SessionPickle = serde_json::from_slice(bytes).map_err(unreadable)?;
        Ok(Ratchet(Session::from_pickle(pickle)))
    }

    pub fn store(&self) -> Result<Zeroizing<Vec<u8>>, SealError> {
        Ok(Zeroizing::new(serde_json::to_vec(&self.0.pickle()).map_err(unreadable)?))
    }

    pub fn id(&self) -> String {
        self.0.session_id()
    }

    pub fn seal(&mut self, plaintext: &[u8]) -> Result<OlmMessage, SealError> {
        self.0.encrypt(plaintext).map_err(|error| SealError::Keys(error.to_string()))
    }

    /// Advances only when the message is genuine.
    pub fn open(&mut self, message: &OlmMessage) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        use vodozemac::olm::DecryptionError as Refused;
        match self.0.decrypt(message) {
            Ok(plaintext) => Ok(Zeroizing::new(plaintext)),
            Err(Refused::MissingMessageKey(_)) => Err(OpenError::Replayed),
            Err(error) => Err(OpenError::Undecryptable(error.to_string())),
        }
    }
}

fn unreadable(error: serde_json::Error) -> SealError {
    // The category only: serde's words may quote the key material it stumbled over.
    SealError::Stored(format!("{:?} at byte {}", error.classify(), error.column()))
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Device(account) = self;
        f.debug_struct("Device").field("key", &account.curve25519_key().to_base64()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Ratchet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratchet(session) = self;
        f.debug_struct("Ratchet").field("id", &session.session_id()).finish_non_exhaustive()
    }
}
