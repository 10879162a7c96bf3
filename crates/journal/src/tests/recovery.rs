//! What is read back of files whose writer is gone, or that somebody has changed.

use super::*;

/// Reads back what is kept of the only command: every byte is the one that was written there. Tells
/// the total and where the tail begins.
fn read_back_numbered(dir: &tempfile::TempDir) -> (u64, u64) {
    let caps = Caps { head: 4096, ring: 4 << 20 };
    let (journal, kept) = recover::resume(dir.path(), caps).unwrap();
    let exec = &kept[&1].journal;
    let mut tail_from = 0;
    for (offset, bytes) in read_all(&journal, exec, 0, 100_000) {
        let expected: Vec<u8> = (offset..offset + bytes.len() as u64).map(numbered).collect();
        assert!(bytes == expected, "bytes from {offset} on are not those that were written there");
        tail_from = if offset > 0 && tail_from == 0 { offset } else { tail_from };
    }
    (exec.total(Stream::Stdout), tail_from)
}

/// What was written after the last mark lies over the oldest bytes of the ring.
#[test]
fn a_tail_that_is_not_certain_is_not_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, Caps { head: 4096, ring: 4 << 20 });
    let mut exec = journal.begin(1, &begun());
    for _ in 0..60 {
        append_numbered(&mut journal, &mut exec, 100_000);
    }
    drop(journal);
    let (total, _) = read_back_numbered(&dir);
    assert!(total > 5 << 20, "{total}");
}

/// A process that was left behind may have written after the end, and the host have died meanwhile.
#[test]
fn after_late_output_the_tail_is_not_certain_either() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, Caps { head: 4096, ring: 4 << 20 });
    let mut exec = journal.begin(1, &begun());
    for _ in 0..60 {
        append_numbered(&mut journal, &mut exec, 100_000);
    }
    journal.end(&mut exec, &end(6_000_000, 0));
    let (total, before) = read_back_numbered(&dir);
    assert_eq!(total, 6_000_000);
    // The host dies before it can say that this was all.
    let late: Vec<u8> = (6_000_000..6_100_000).map(numbered).collect();
    exec.tracks[0].spill_over(&late);
    let (total, after) = read_back_numbered(&dir);
    assert_eq!(total, 6_000_000);
    assert!(after > before, "{after} {before}");
    append_numbered(&mut journal, &mut exec, 100_000);
    assert_eq!(read_back_numbered(&dir), (6_200_000, before + 200_000));
}

#[test]
fn a_piece_that_does_not_follow_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let caps = Caps { head: 4096, ring: 4096 };
    let mut journal = journal(&dir, caps);
    let mut exec = journal.begin(1, &begun());
    append_numbered(&mut journal, &mut exec, 100);
    for offset in [0, 99, 101, 5000] {
        journal.log.append(Kind::Data, 1, Some(Stream::Stdout), offset, b"stray").unwrap();
    }
    append_numbered(&mut journal, &mut exec, 100);
    drop(journal);
    assert_eq!(read_back_numbered(&dir).0, 200);
}

/// A large piece, of which the file does not tell yet.
#[test]
fn a_tail_is_not_told_that_the_last_piece_may_have_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, Caps { head: 4096, ring: 4 << 20 });
    let mut exec = journal.begin(1, &begun());
    for _ in 0..62 {
        append_numbered(&mut journal, &mut exec, 100_000);
    }
    append_numbered(&mut journal, &mut exec, 1_000_000);
    drop(journal);
    let (total, _) = read_back_numbered(&dir);
    assert_eq!(total, 6_200_000, "the test is about bytes of which the file does not tell");
}

/// However much is printed, the log has one record of the file.
#[test]
fn the_log_does_not_grow_with_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    let mut exec = journal.begin(1, &begun());
    append_numbered(&mut journal, &mut exec, 100_000);
    let log = || std::fs::metadata(dir.path().join("journal-1.log")).unwrap().len();
    let before = log();
    for _ in 0..1000 {
        append_numbered(&mut journal, &mut exec, 1000);
    }
    journal.end(&mut exec, &end(1_100_000, 0));
    append_numbered(&mut journal, &mut exec, 1000);
    assert!(log() - before < 1000, "only the end: {before} {}", log());
}

/// A disk that refuses to be read, or a file that somebody has cut: readers are told to go on behind it.
#[test]
fn what_cannot_be_read_is_passed_over() {
    const TOTAL: u64 = 200_000;
    let caps = Caps { head: 10_000, ring: 50_000 };
    let (head_end, tail) = (INLINE_BYTES + caps.head, (TOTAL - caps.ring, TOTAL));
    for (cut, file, expected) in [
        (None, "1.stdout", vec![(0, head_end), tail]),
        (Some(0), "1.stdout", vec![(0, INLINE_BYTES)]),
        (Some(crate::extent::HEADER + caps.head), "1.stdout", vec![(0, head_end)]),
        (Some(0), "journal-1.log", vec![tail]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir, caps);
        let mut exec = journal.begin(1, &begun());
        append_numbered(&mut journal, &mut exec, TOTAL as usize);
        if let Some(cut) = cut {
            let file = std::fs::OpenOptions::new().write(true).open(dir.path().join(file)).unwrap();
            file.set_len(cut).unwrap();
        }
        let mut parts: Vec<(u64, u64)> = Vec::new();
        let mut at = 0;
        while at < TOTAL {
            let mut out = [0; 1000];
            let (offset, read) = journal.read(&exec, Stream::Stdout, at, &mut out);
            assert!(out[..read].iter().zip(offset..).all(|(byte, at)| *byte == numbered(at)), "{offset}");
            at = offset + read as u64;
            assert!(read > 0 || at == TOTAL, "a reader would stay at {at}");
            match parts.last_mut() {
                Some(last) if last.1 == offset => last.1 = at,
                _ if read > 0 => parts.push((offset, at)),
                _ => {}
            }
        }
        assert_eq!(parts, expected, "{file} cut at {cut:?}");
    }
}

#[test]
fn only_the_ring_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    let mut exec = journal.begin(1, &begun());
    append_numbered(&mut journal, &mut exec, 68_000);
    let head_end = INLINE_BYTES + SMALL.head;
    for (unread, oldest) in [(0, head_end), (head_end - 1, head_end), (67_500, 67_500)] {
        let room = exec.room_before_overwriting(Stream::Stdout, unread, SMALL);
        assert_eq!(room, oldest + SMALL.ring - 68_000, "{unread}");
    }
}

/// A file of an earlier version. Output was lost before it could be made, or it was cut: what is not there is told as dropped.
#[test]
fn what_a_file_lacks_is_dropped() {
    let ring = |offset: u64| (0..8).map(move |at| numbered((offset & !7) + at)).collect::<Vec<u8>>();
    #[derive(PartialEq)]
    enum Last {
        Mark,
        End,
        Late,
    }
    let head = || (3..7).map(numbered).collect::<Vec<u8>>();
    for (lost, file, last, expected, dropped) in [
        (7, [vec![0; 4], ring(10)].concat(), Last::End, (10..16).collect::<Vec<u64>>(), 7),
        (0, (3..5).map(numbered).collect(), Last::End, vec![3, 4], 11),
        (0, [head(), ring(8)].concat(), Last::End, [3, 4, 5, 6].into_iter().chain(8..16).collect(), 1),
        // The ring is shorter than it should be.
        (0, [head(), ring(8)[..7].to_vec()].concat(), Last::End, (3..7).collect(), 9),
        // The command had not ended; more may have been written than the last mark says.
        (0, [head(), ring(8)].concat(), Last::Mark, (3..7).collect(), 9),
        // Something was written after the end, and nobody knows how much.
        (0, [head(), ring(8)].concat(), Last::Late, (3..7).collect(), 9),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir, SMALL);
        let mut exec = journal.begin(1, &begun());
        append_numbered(&mut journal, &mut exec, 3);
        let start = b"{\"from\":3,\"head\":4,\"ring\":8}";
        journal.log.append(Kind::Spill, 1, Some(Stream::Stdout), 3 + lost, start).unwrap();
        if last != Last::Mark {
            journal.end(&mut exec, &end(16, 0));
        }
        if last != Last::End {
            journal.log.append(Kind::Mark, 1, Some(Stream::Stdout), 16, b"").unwrap();
        }
        drop(journal);
        std::fs::write(dir.path().join("1.stdout"), file).unwrap();
        let (journal, kept) = recover::read(dir.path()).unwrap();
        let exec = &kept[&1].journal;
        let read: Vec<(u64, u8)> = read_all(&journal, exec, 3, 100)
            .into_iter()
            .flat_map(|(offset, bytes)| {
                bytes.into_iter().enumerate().map(move |(n, b)| (offset + n as u64, b))
            })
            .collect();
        let expected: Vec<(u64, u8)> =
            expected.into_iter().map(|offset| (offset, numbered(offset))).collect();
        assert_eq!(read, expected, "{lost} bytes were lost");
        assert_eq!((exec.total(Stream::Stdout), exec.dropped(Stream::Stdout)), (16, dropped));
    }
}

/// Numbers and sizes that nobody has written do not make a reader of them read or count on for ever.
#[test]
fn impossible_sizes_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    journal.begin(1, &begun());
    journal.log.append(Kind::Mark, 1, Some(Stream::Stdout), u64::MAX, b"").unwrap();
    drop(journal);
    let log = std::fs::OpenOptions::new().write(true).open(dir.path().join("journal-1.log")).unwrap();
    log.set_len(1 << 42).unwrap();
    let (_, kept) = recover::read(dir.path()).unwrap();
    assert_eq!(kept[&1].journal.total(Stream::Stdout), 1 << 48);
}

/// Where a file of output begins and how it is divided must fit what came before it.
#[test]
fn a_file_that_cannot_be_what_it_says_is_not_read() {
    const TOO_MUCH: u64 = (1 << 48) + 1;
    for (from, head, ring, fits) in [
        (3, 10, 8, true),
        (2, 10, 8, false),
        (4, 10, 8, false),
        (3, 10, 0, false),
        (3, TOO_MUCH, 8, false),
        (3, 10, TOO_MUCH, false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir, SMALL);
        let mut exec = journal.begin(1, &begun());
        journal.append(&mut exec, Stream::Stdout, b"abc");
        let start = format!("{{\"from\":{from},\"head\":{head},\"ring\":{ring}}}");
        journal.log.append(Kind::Spill, 1, Some(Stream::Stdout), 3, start.as_bytes()).unwrap();
        journal.log.append(Kind::Mark, 1, Some(Stream::Stdout), 13, b"").unwrap();
        drop(journal);
        std::fs::write(dir.path().join("1.stdout"), [b's'; 18]).unwrap();
        let (journal, kept) = recover::read(dir.path()).unwrap();
        let read: usize =
            read_all(&journal, &kept[&1].journal, 0, 100).iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(read, if fits { 13 } else { 3 }, "from {from}, head {head}, ring {ring}");
        assert_eq!(kept[&1].journal.total(Stream::Stdout), 13);
    }
}
