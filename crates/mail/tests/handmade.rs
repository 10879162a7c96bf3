//! A peer made by hand: it seals what it likes, with whatever keys it likes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::json;
use trl_mail::identity::{Address, Identity};
use trl_mail::relay::{Outgoing, Published, Relay as _};
use trl_mail::seal::{Bundle, Device, Packet, Ratchet, SignedKey};
use trl_protocol::{Method as _, methods as m};

use crate::support::Office;

pub struct Handmade {
    pub identity: Identity,
    pub device: Device,
    sent: u64,
}

impl Handmade {
    /// Known to the directory of this office's relay.
    pub async fn at(office: &Office) -> Handmade {
        let identity = Identity::generate();
        let mut device = Device::generate();
        let keys = device.one_time_keys(&identity, 1, 5);
        let fallback = device.fallback_key(&identity, 1).unwrap();
        let bundle = Bundle { card: device.card(&identity, 1), fallback };
        office.relay.announce(identity.address(), bundle, keys).await.unwrap();
        Handmade { identity, device, sent: 0 }
    }

    pub fn address(&self) -> Address {
        self.identity.address().clone()
    }

    /// A one-time key of `to`, which nobody else gets.
    pub async fn claim(&self, office: &Office, to: &Address) -> (Bundle, SignedKey) {
        let claim = office.relay.claim(to).await.unwrap().unwrap();
        (claim.bundle, claim.one_time_key.unwrap())
    }

    pub fn start(&self, to: &Address, bundle: &Bundle, key: &SignedKey) -> Ratchet {
        self.device.start(&bundle.card.verify(to).unwrap(), key).unwrap()
    }

    pub async fn ratchet(&self, office: &Office, to: &Address) -> Ratchet {
        let (bundle, key) = self.claim(office, to).await;
        self.start(to, &bundle, &key)
    }

    /// Seals a plaintext and publishes it, with a card of this epoch if it is a first message.
    pub async fn publish(
        &mut self,
        office: &Office,
        to: &Address,
        ratchet: &mut Ratchet,
        epoch: u64,
        plaintext: &[u8],
    ) {
        let outgoing = self.seal(to, ratchet, epoch, plaintext);
        assert_eq!(office.relay.publish(vec![outgoing]).await.unwrap(), [Published::Stored]);
    }

    pub fn seal(&self, to: &Address, ratchet: &mut Ratchet, epoch: u64, plaintext: &[u8]) -> Outgoing {
        let message = ratchet.seal(plaintext).unwrap();
        let packet = Packet::new(message, &self.device.card(&self.identity, epoch));
        let (id, bytes) = (packet.id().as_str().to_owned(), packet.to_bytes().unwrap());
        Outgoing { from: self.address(), to: to.clone(), id, bytes }
    }

    /// A message with this body.
    pub async fn mail(&mut self, office: &Office, to: &Address, ratchet: &mut Ratchet, body: &[u8]) {
        self.mail_in_epoch(office, to, ratchet, 1, body).await;
    }

    pub async fn mail_in_epoch(
        &mut self,
        office: &Office,
        to: &Address,
        ratchet: &mut Ratchet,
        epoch: u64,
        body: &[u8],
    ) {
        self.sent += 1;
        let mut plaintext = vec![b'M'];
        plaintext.extend_from_slice(&u128::from(self.sent).to_be_bytes());
        plaintext.extend_from_slice(body);
        self.publish(office, to, ratchet, epoch, &plaintext).await;
    }

    /// Asks to be a contact under this name, and is accepted.
    pub async fn introduce(&mut self, office: &Office, to: &Address, name: &str) -> Ratchet {
        let mut ratchet = self.ratchet(office, to).await;
        self.ask_under_name(office, to, &mut ratchet, name).await;
        let who = json!({ "who": self.address().as_str() });
        office.get(1, m::ContactAccept::NAME, who).await;
        ratchet
    }

    pub async fn ask_under_name(&mut self, office: &Office, to: &Address, ratchet: &mut Ratchet, name: &str) {
        let mut plaintext = vec![b'C'];
        plaintext.extend_from_slice(json!({ "say": "request", "name": name }).to_string().as_bytes());
        self.publish(office, to, ratchet, 1, &plaintext).await;
        let row = async || {
            let list = office.get(1, m::ContactList::NAME, json!({})).await;
            let rows = list["contacts"].as_array().unwrap().clone();
            rows.into_iter().find(|row| row["address"] == self.address().as_str()).into()
        };
        crate::support::until("the request is heard", row, |row| !row.is_null()).await;
    }
}

/// Alice, on the first connection, and her address.
pub async fn alice(office: &Office) -> Address {
    office.agents(&["alice"]).await;
    let list = office.get(0, m::AgentList::NAME, json!({})).await;
    Address::parse(list["agents"][0]["address"].as_str().unwrap()).unwrap()
}
