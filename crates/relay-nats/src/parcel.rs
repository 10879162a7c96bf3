//! Packets of one pair that travel together, as one message of the broker.
//!
//! Whatever leaves for one recipient in one go is stored or refused as a whole, so a
//! connection that breaks in the middle cannot let later packets overtake earlier ones.
//! The mark at the beginning also tells our mail from the broker's own answers: a member
//! could have one of those sent to a mailbox, by naming it as where to reply.

const MARK: &[u8] = b"TRLP\x01";
const LENGTH: usize = 4;

/// Longest parcel; brokers take 1 MiB unless they are told otherwise.
pub(crate) const MAX_BYTES: usize = 960 * 1024;
/// Longest packet: alone in its parcel it always fits.
pub(crate) const MAX_PACKET: usize = 768 * 1024;

pub(crate) fn pack<'a>(packets: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut parcel = MARK.to_vec();
    for packet in packets {
        parcel.extend_from_slice(&u32::try_from(packet.len()).unwrap_or(u32::MAX).to_be_bytes());
        parcel.extend_from_slice(packet);
    }
    parcel
}

/// `None` if it is none of ours.
pub(crate) fn unpack(parcel: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = parcel.strip_prefix(MARK)?;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<LENGTH>()?;
        let (packet, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        packets.push(packet.to_vec());
        rest = after;
    }
    Some(packets)
}

/// How many of the packets with these sizes, from the first on, go together.
pub(crate) fn fill(sizes: impl Iterator<Item = usize>) -> usize {
    let mut total = MARK.len();
    let mut count = 0;
    for size in sizes {
        total += LENGTH + size;
        if total > MAX_BYTES && count > 0 {
            break;
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_packed_comes_back(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..9)) {
            let parcel = pack(packets.iter().map(Vec::as_slice));
            prop_assert_eq!(unpack(&parcel), Some(packets));
        }

        #[test]
        fn anything_else_is_none_of_ours_or_whole(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(packets) = unpack(&bytes) {
                prop_assert_eq!(pack(packets.iter().map(Vec::as_slice)), bytes);
            }
        }
    }

    #[test]
    fn answers_of_the_broker_are_no_parcels() {
        for answer in
            [&b""[..], b"{\"stream\":\"TRL_MBOX_a\", \"seq\":1}", b"TRLP\x01\0\0\0\x09x", b"TRLP\x01\0"]
        {
            assert_eq!(unpack(answer), None);
        }
    }

    #[test]
    fn parcels_are_filled_up_to_the_limit() {
        let cases: &[(&[usize], usize)] = &[
            (&[], 0),
            (&[10, 10], 2),
            (&[MAX_PACKET, MAX_PACKET], 1),
            (&[MAX_BYTES * 2, 1], 1),
            (&[100; 128], 128),
        ];
        for (sizes, expected) in cases {
            assert_eq!(fill(sizes.iter().copied()), *expected, "{} sizes", sizes.len());
        }
        assert!(pack([vec![0; MAX_PACKET].as_slice()].into_iter()).len() <= MAX_BYTES);
    }
}
