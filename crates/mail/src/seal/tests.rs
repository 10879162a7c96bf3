use vodozemac::olm::OlmMessage;

use super::*;
use crate::identity::Identity;

struct Party {
    identity: Identity,
    device: Device,
}

fn party(seed: u8) -> Party {
    Party { identity: Identity::from_bytes(&[seed; 32]), device: Device::generate() }
}

fn opened(device: &mut Device, packet: &[u8], from: &Identity) -> Result<(Ratchet, Vec<u8>), OpenError> {
    match Packet::from_bytes(packet).unwrap() {
        Packet::First { card, message } => {
            let card = card.verify(from.address())?;
            device.accept(&card.device, &message).map(|(ratchet, text)| (ratchet, text.to_vec()))
        }
        Packet::Later(_) => panic!("expected a first message"),
    }
}

fn first_packet(from: &mut Party, to: &mut Party, text: &[u8]) -> (Ratchet, Vec<u8>) {
    let key = to.device.one_time_keys(&to.identity, 1, 1).remove(0);
    let card = to.device.card(&to.identity, 1).verify(to.identity.address()).unwrap();
    let mut ratchet = from.device.start(&card, &key).unwrap();
    let sealed = ratchet.seal(text).unwrap();
    let packet = Packet::new(sealed, &from.device.card(&from.identity, 1));
    (ratchet, packet.to_bytes().unwrap())
}

#[test]
fn a_first_message_and_its_answer_survive_storage() {
    let (mut alice, mut bob) = (party(1), party(2));
    let (ratchet, packet) = first_packet(&mut alice, &mut bob, b"hello");
    let (bobs, text) = opened(&mut bob.device, &packet, &alice.identity).unwrap();
    assert_eq!(text, b"hello");
    let mut bobs = Ratchet::restore(&bobs.store().unwrap()).unwrap();
    let mut alices = Ratchet::restore(&ratchet.store().unwrap()).unwrap();
    let answer = bobs.seal(b"hi").unwrap();
    assert!(matches!(answer, OlmMessage::Normal(_)));
    assert_eq!(alices.open(&answer).unwrap().as_slice(), b"hi");
    assert_eq!(alices.open(&answer).unwrap_err(), OpenError::Replayed);
}

#[test]
fn a_used_one_time_key_opens_nothing_twice() {
    let (mut alice, mut bob) = (party(1), party(2));
    let (_, packet) = first_packet(&mut alice, &mut bob, b"hello");
    opened(&mut bob.device, &packet, &alice.identity).unwrap();
    assert_eq!(opened(&mut bob.device, &packet, &alice.identity).unwrap_err(), OpenError::LostKey);
}

#[test]
fn a_card_of_someone_else_is_refused() {
    let (mut alice, mut bob) = (party(1), party(2));
    let mallory = party(3);
    let (_, packet) = first_packet(&mut alice, &mut bob, b"hello");
    assert!(matches!(
        opened(&mut bob.device, &packet, &mallory.identity),
        Err(OpenError::Card(BadCard::WrongAddress { .. }))
    ));
    let mut card = bob.device.card(&bob.identity, 1);
    card.epoch = 2;
    assert_eq!(card.verify(bob.identity.address()).unwrap_err(), BadCard::Signature);
    let good = bob.device.card(&bob.identity, 1).verify(bob.identity.address()).unwrap();
    let foreign = mallory_key(&good);
    assert_eq!(alice.device.start(&good, &foreign).unwrap_err().to_string(), "the card's signature is wrong");
}

fn mallory_key(_of: &VerifiedCard) -> SignedKey {
    let mut mallory = party(3);
    mallory.device.one_time_keys(&mallory.identity, 1, 1).remove(0)
}

#[test]
fn key_ids_are_never_used_twice() {
    let mut bob = party(2);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        for key in bob.device.one_time_keys(&bob.identity, 1, 7) {
            assert!(seen.insert(key.id));
        }
        bob.device = Device::restore(&bob.device.store().unwrap()).unwrap();
        assert!(seen.insert(bob.device.fallback_key(&bob.identity, 1).unwrap().id));
    }
}

#[test]
fn a_packet_is_known_by_its_ciphertext_and_garbage_is_refused() {
    let (mut alice, mut bob) = (party(1), party(2));
    let (_, bytes) = first_packet(&mut alice, &mut bob, b"hello");
    let packet = Packet::from_bytes(&bytes).unwrap();
    let Packet::First { card, message } = Packet::from_bytes(&bytes).unwrap() else { panic!() };
    let rewrapped = Packet::First { card: DeviceCard { epoch: 99, ..card }, message };
    assert_ne!(rewrapped.to_bytes().unwrap(), bytes);
    assert_eq!(rewrapped.id(), packet.id());
    for cut in 0..bytes.len().min(500) {
        let _ = Packet::from_bytes(&bytes[..cut]);
    }
    for bad in [&b""[..], b"TRL", b"TRL1", b"TRL1\x07", b"TRL1\x00\xff\xff", b"XXXX\x01"] {
        assert!(Packet::from_bytes(bad).is_err());
    }
}

#[test]
fn debug_tells_no_secret() {
    let (mut alice, mut bob) = (party(1), party(2));
    let (ratchet, _) = first_packet(&mut alice, &mut bob, b"hello");
    let device = alice.device.card(&alice.identity, 1).device;
    assert_eq!(format!("{:?}", alice.device), format!("Device {{ key: {device:?}, .. }}"));
    assert_eq!(format!("{ratchet:?}"), format!("Ratchet {{ id: {:?}, .. }}", ratchet.id()));
}

/// Under another id it could be used twice, for another device by nobody.
#[test]
fn a_signature_holds_for_one_key_of_one_device_under_one_id() {
    let mut bob = party(2);
    let key = bob.device.one_time_keys(&bob.identity, 1, 1).remove(0);
    let card = bob.device.card(&bob.identity, 1);
    let verified = card.verify(bob.identity.address()).unwrap();
    key.verify(&verified).unwrap();
    let renamed = SignedKey { id: "1.another".to_owned(), ..key.clone() };
    assert_eq!(renamed.verify(&verified), Err(BadCard::Signature));
    let other = Device::generate().card(&bob.identity, 1).verify(bob.identity.address()).unwrap();
    assert_eq!(key.verify(&other), Err(BadCard::Signature));
    let newer = DeviceCard { v: 2, ..card };
    assert_eq!(newer.verify(bob.identity.address()), Err(BadCard::Version(2)));
}
