//! Writes that fail or end in the middle, as on a full disk. A limit on the size of files stands for it: it can be set and
//! lifted at any time.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::extent::HEADER;

const ALONE: &str = "TRL_TEST_FILES_MAY_BE_SHORT";

/// Limits are for a whole process, so such a test runs in one of its own. True: this is that process.
/// False: the test has passed there.
pub(crate) fn run_in_own_process(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let script = "trap '' XFSZ; exec \"$@\"";
    let done = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(program)
        .args(["--exact", test])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && told.contains("1 passed"), "{told}");
    false
}

/// From now on no file can grow beyond this.
pub(crate) fn limit_files(bytes: Option<u64>) {
    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(limit.maximum), ..limit }).unwrap();
}

type Parts = Vec<(u64, u64)>;

/// The kept parts of the only command, each as its offset and its end. Every byte is the one that was written there.
fn kept_parts(journal: &Journal, exec: &ExecJournal) -> Parts {
    let mut parts = Parts::new();
    for (offset, bytes) in read_all(journal, exec, 0, 10_000) {
        let end = offset + bytes.len() as u64;
        assert!(
            bytes == (offset..end).map(numbered).collect::<Vec<u8>>(),
            "not what was written from {offset} on"
        );
        match parts.last_mut() {
            Some(last) if last.1 == offset => last.1 = end,
            _ => parts.push((offset, end)),
        }
    }
    let kept: u64 = parts.iter().map(|(from, end)| end - from).sum();
    assert_eq!(kept + exec.dropped(Stream::Stdout), exec.total(Stream::Stdout), "{parts:?}");
    parts
}

#[test]
fn what_was_written_is_kept_and_nothing_else_is_told() {
    if !run_in_own_process("tests::full_disk::what_was_written_is_kept_and_nothing_else_is_told") {
        return;
    }
    const IN_LOG: u64 = INLINE_BYTES;
    const HEAD: Caps = Caps { head: 200_000, ring: 400_000 };
    const RING: Caps = Caps { head: 100_000, ring: 400_000 };
    // Pieces that are written while files have a limit or none; which parts are kept.
    let limited = |limit: u64, count: usize| (Some(limit), count);
    let free = |count: usize| (None, count);
    let cases = [
        // The head ends in the middle of a piece. The log has room.
        (HEAD, 0, vec![limited(100_000, 250_000)], vec![(0, IN_LOG + 100_000 - HEADER)]),
        (HEAD, 0, vec![limited(100_000, 90_000); 3], vec![(0, IN_LOG + 100_000 - HEADER)]),
        (
            HEAD,
            0,
            vec![limited(100_000, 250_000), free(70_000), free(70_000)],
            vec![(0, IN_LOG + 100_000 - HEADER), (250_000, 390_000)],
        ),
        // So little comes after it that the file would not say more by itself.
        (
            HEAD,
            0,
            vec![limited(100_000, 250_000), free(20_000)],
            vec![(0, IN_LOG + 100_000 - HEADER), (250_000, 270_000)],
        ),
        // Nor has the log any room.
        (HEAD, 0, vec![free(90_000), limited(30_000, 250_000)], vec![(0, IN_LOG + 30_000 - HEADER)]),
        (
            HEAD,
            0,
            vec![free(90_000), limited(30_000, 250_000), limited(30_000, 1), free(70_000)],
            vec![(0, IN_LOG + 30_000 - HEADER), (340_001, 410_001)],
        ),
        // A part of the tail is lost.
        (RING, 0, vec![free(200_000), limited(150_000, 250_000)], vec![(0, IN_LOG + 100_000)]),
        (
            RING,
            0,
            vec![free(200_000), limited(150_000, 250_000), free(90_000)],
            vec![(0, IN_LOG + 100_000), (450_000, 540_000)],
        ),
        (
            RING,
            0,
            [vec![free(200_000), limited(150_000, 250_000)], vec![free(90_000); 9]].concat(),
            vec![(0, IN_LOG + 100_000), (860_000, 1_260_000)],
        ),
        // Twice.
        (
            RING,
            0,
            vec![
                free(200_000),
                limited(150_000, 250_000),
                free(90_000),
                limited(150_000, 50_000),
                free(40_000),
            ],
            vec![(0, IN_LOG + 100_000), (590_000, 630_000)],
        ),
        // The ring has all its room, the log has none.
        (
            RING,
            8,
            [vec![free(700_000)], vec![limited(520_000, 90_000); 5]].concat(),
            vec![(0, IN_LOG + 100_000), (750_000, 1_150_000)],
        ),
    ];
    for (caps, others, pieces, expected) in cases {
        for is_killed in [false, true] {
            let case = format!("{caps:?}, {others} others, {pieces:?}, killed: {is_killed}");
            let (live, again) = write_and_recover(caps, others, &pieces, is_killed);
            assert_eq!(live, expected, "{case}");
            if is_killed {
                // A tail may be followed by more than the file says, which lies over its begin.
                assert!(again[0].0 == 0 && again[0].1 >= expected[0].1, "{case}: {again:?}");
            } else {
                assert_eq!(again, expected, "{case}");
            }
        }
    }
}

/// What is kept of these pieces, each with the limit under which it is written, and of the files afterwards.
fn write_and_recover(
    caps: Caps,
    others: u64,
    pieces: &[(Option<u64>, usize)],
    is_killed: bool,
) -> (Parts, Parts) {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, caps);
    for other in 0..others {
        let mut exec = journal.begin(2 + other, &begun());
        append_numbered(&mut journal, &mut exec, INLINE_BYTES as usize);
    }
    let mut exec = journal.begin(1, &begun());
    for (limit, count) in pieces {
        limit_files(*limit);
        append_numbered(&mut journal, &mut exec, *count);
        limit_files(None);
    }
    let live = kept_parts(&journal, &exec);
    let total = exec.total(Stream::Stdout);
    if !is_killed {
        journal.end(&mut exec, &end(total, 0));
    }
    drop(journal);
    let (journal, kept) = recover::read(dir.path()).unwrap();
    let exec = &kept[&1].journal;
    assert!(is_killed || exec.total(Stream::Stdout) == total);
    (live, kept_parts(&journal, exec))
}

/// What the log did not take is in memory; what comes later follows in no file. After a crash it is dropped.
#[test]
fn what_was_only_in_memory_is_dropped_after_a_crash() {
    if !run_in_own_process("tests::full_disk::what_was_only_in_memory_is_dropped_after_a_crash") {
        return;
    }
    let tail = (INLINE_BYTES + SMALL.head + 2000, INLINE_BYTES + SMALL.head + 5000);
    let cases = [
        (vec![(None, 100), (Some(10), 100), (None, 100)], vec![(0, 300)], vec![(0, 100)]),
        // The file of its own has no record while the log is full.
        (vec![(Some(100), 70_000)], vec![(0, INLINE_BYTES)], vec![]),
        (
            vec![(Some(100), 70_000), (None, 500)],
            vec![(0, INLINE_BYTES), (70_000, 70_500)],
            vec![(70_000, 70_500)],
        ),
        (vec![(Some(100), 60_000), (None, 11_536)], vec![(0, INLINE_BYTES + SMALL.head), tail], vec![tail]),
    ];
    for (pieces, expected, after) in cases {
        assert_eq!(write_and_recover(SMALL, 0, &pieces, false), (expected, after), "{pieces:?}");
    }
}
