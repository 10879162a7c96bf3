pub(crate) mod full_disk;
mod recovery;

use super::*;
use proptest::prelude::*;

const SMALL: Caps = Caps { head: 1000, ring: 3000 };

fn begun() -> Start {
    Start { command: "x".into(), created_at: "2000-01-01T00:00:00.000Z".into(), ..Start::default() }
}

fn end(stdout_bytes: u64, stderr_bytes: u64) -> End {
    let outcome = trl_protocol::exec::Outcome {
        exit_code: Some(7),
        signal: None,
        duration_ms: 1,
        duration_us: 10,
        timed_out: false,
        cancelled: false,
        stdout_bytes,
        stderr_bytes,
        working_dir: "/".into(),
        ..Default::default()
    };
    End { outcome, at: "2000-01-01T00:00:01.000Z".into() }
}

fn journal(dir: &tempfile::TempDir, caps: Caps) -> Journal {
    Journal::open(dir.path(), caps).unwrap()
}

fn read_all(journal: &Journal, exec: &ExecJournal, from: u64, chunk: usize) -> Vec<(u64, Vec<u8>)> {
    let (mut at, mut pieces) = (from, Vec::new());
    loop {
        let mut out = vec![0; chunk];
        let (offset, read) = journal.read(exec, Stream::Stdout, at, &mut out);
        if read == 0 {
            return pieces;
        }
        out.truncate(read);
        at = offset + read as u64;
        pieces.push((offset, out));
    }
}

proptest! {
    /// Whatever is written in whatever pieces, each kept byte is the byte that was
    /// written there, the head and the tail are kept, and the count is exact.
    #[test]
    fn kept_bytes_are_the_written_bytes(pieces in prop::collection::vec(1usize..9000, 1..60), chunk in 1usize..5000, start in 0u64..100_000) {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir, SMALL);
        let mut exec = journal.begin(1, &begun());
        let mut model = Vec::new();
        for (i, len) in pieces.iter().enumerate() {
            let bytes: Vec<u8> = (0..*len).map(|j| (i * 31 + j * 7) as u8).collect();
            journal.append(&mut exec, Stream::Stdout, &bytes);
            model.extend_from_slice(&bytes);
        }
        prop_assert_eq!(exec.total(Stream::Stdout), model.len() as u64);
        let mut kept = 0;
        for (offset, bytes) in read_all(&journal, &exec, 0, chunk) {
            prop_assert_eq!(&model[offset as usize..offset as usize + bytes.len()], &bytes[..]);
            kept += bytes.len() as u64;
        }
        prop_assert_eq!(kept + exec.dropped(Stream::Stdout), model.len() as u64);
        let capacity = INLINE_BYTES + SMALL.head + SMALL.ring;
        if model.len() as u64 <= INLINE_BYTES + SMALL.head {
            prop_assert_eq!(exec.dropped(Stream::Stdout), 0);
        }
        prop_assert!(kept <= capacity);
        for (offset, bytes) in read_all(&journal, &exec, start, chunk) {
            prop_assert_eq!(&model[offset as usize..offset as usize + bytes.len()], &bytes[..]);
        }
    }
}

#[test]
fn many_tiny_writes_leave_the_log_and_stay_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    let mut exec = journal.begin(1, &begun());
    for i in 0..1000u32 {
        journal.append(&mut exec, Stream::Stdout, &[(i % 251) as u8]);
    }
    let all: Vec<u8> = read_all(&journal, &exec, 0, 100).into_iter().flat_map(|(_, b)| b).collect();
    assert_eq!(all, (0..1000u32).map(|i| (i % 251) as u8).collect::<Vec<_>>());
}

#[test]
fn forgetting_a_command_frees_its_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    let mut kept = Vec::new();
    for number in 0..40 {
        let mut exec = journal.begin(number, &begun());
        journal.append(&mut exec, Stream::Stdout, &vec![b'a'; 200_000]);
        journal.append(&mut exec, Stream::Stderr, &vec![b'b'; 60_000]);
        journal.end(&mut exec, &end(200_000, 60_000));
        kept.push(exec);
    }
    for exec in kept {
        journal.discard(exec);
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "only the current segment: {left:?}");
}

#[test]
fn output_goes_on_when_the_directory_vanished() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    let mut exec = journal.begin(1, &begun());
    std::fs::remove_dir_all(dir.path()).unwrap();
    journal.append(&mut exec, Stream::Stdout, &vec![b'z'; 70_000]);
    let all: Vec<u8> = read_all(&journal, &exec, 0, 4096).into_iter().flat_map(|(_, b)| b).collect();
    assert_eq!(all.len() as u64 + exec.dropped(Stream::Stdout), 70_000);
    assert_eq!(all.len(), 67_000 + 3_000 - exec.dropped(Stream::Stdout) as usize);
}

fn written(pieces: &[usize]) -> Vec<Vec<u8>> {
    pieces.iter().enumerate().map(|(i, len)| (0..*len).map(|j| (i * 31 + j * 7) as u8).collect()).collect()
}

proptest! {
    /// A journal read back from its files tells what its writer could have told, whether the
    /// command had ended or the writer was killed: no byte that was not written there.
    #[test]
    fn what_is_read_back_is_what_was_written(pieces in prop::collection::vec(1usize..9000, 1..60), ended: bool, chunk in 1usize..5000) {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir, SMALL);
        let mut exec = journal.begin(1, &begun());
        let mut model = Vec::new();
        for piece in written(&pieces) {
            journal.append(&mut exec, Stream::Stdout, &piece);
            model.extend_from_slice(&piece);
        }
        if ended {
            journal.end(&mut exec, &end(model.len() as u64, 0));
        }
        let (kept, execs) = recover::read(dir.path()).unwrap();
        let again = &execs[&1];
        let total = again.journal.total(Stream::Stdout);
        prop_assert!(total <= model.len() as u64);
        if ended || model.len() as u64 <= INLINE_BYTES + SMALL.head {
            prop_assert_eq!(total, model.len() as u64);
        } else {
            prop_assert!(model.len() as u64 - total <= 9000 + SMALL.ring / 16);
        }
        let mut read = 0;
        for (offset, bytes) in read_all(&kept, &again.journal, 0, chunk) {
            prop_assert_eq!(&model[offset as usize..offset as usize + bytes.len()], &bytes[..]);
            read += bytes.len() as u64;
        }
        prop_assert_eq!(read + again.journal.dropped(Stream::Stdout), total);
        let outcome = again.outcome("/");
        prop_assert_eq!(outcome.exit_code, ended.then_some(7));
    }

    /// Damage costs what it hits, never the reader.
    #[test]
    fn damaged_files_are_read_as_far_as_they_go(damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20), cut in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir, SMALL);
        for number in 1..4 {
            let mut exec = journal.begin(number, &begun());
            journal.append(&mut exec, Stream::Stderr, b"small");
            journal.append(&mut exec, Stream::Stdout, &vec![b'x'; 70_000]);
            journal.end(&mut exec, &end(70_000, 5));
        }
        let path = dir.path().join("journal-1.log");
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        std::fs::write(&path, bytes).unwrap();
        read_everything(dir.path());
    }
}

/// Asks everything that can be asked of what is kept in `dir`; tells what kinds of things there are.
fn read_everything(dir: &Path) -> String {
    let (journal, execs) = recover::read(dir).unwrap();
    let mut seen = String::new();
    for exec in execs.values() {
        exec.info(trl_protocol::SessionId(1), "/");
        exec.journal.disk_bytes();
        for stream in Stream::BOTH {
            let (total, dropped) = (exec.journal.total(stream), exec.journal.dropped(stream));
            seen.push_str(&format!("{} {} ", total.min(4), dropped.min(4)));
            for from in [0, total / 2, total.saturating_sub(1), total, u64::MAX] {
                let (offset, read) = journal.read(&exec.journal, stream, from, &mut [0; 4096]);
                assert!(offset + read as u64 <= total);
            }
        }
    }
    seen
}

#[test]
fn a_host_goes_on_where_another_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = journal(&dir, SMALL);
    let mut exec = first.begin(1, &begun());
    first.append(&mut exec, Stream::Stdout, b"one");
    first.end(&mut exec, &end(3, 0));
    first.begin(2, &begun());
    first.begin(3, &Start { queued: true, ..begun() });
    let mut had_to_wait = first.begin(4, &Start { queued: true, ..begun() });
    first.began(&mut had_to_wait, &Began { at: "later".into() });
    drop(first);
    let (mut second, mut kept) = recover::resume(dir.path(), SMALL).unwrap();
    assert_eq!(kept.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(read_all(&second, &kept[&1].journal, 0, 10), [(0, b"one".to_vec())]);
    let notes: Vec<String> = kept.values().map(|exec| exec.outcome("/").notes.concat()).collect();
    assert_eq!(notes[0], "");
    assert!(
        notes[1].contains("is unknown")
            && notes[2].contains("did not run")
            && notes[3].contains("is unknown")
    );
    assert_eq!(kept[&4].started_at().as_deref(), Some("later"));
    let mut exec = second.begin(5, &begun());
    second.append(&mut exec, Stream::Stdout, b"two");
    assert_eq!(read_all(&second, &exec, 0, 10), [(0, b"two".to_vec())]);
    for (_, exec) in std::mem::take(&mut kept) {
        second.discard(exec.journal);
    }
    assert_eq!(recover::read(dir.path()).unwrap().1.keys().copied().collect::<Vec<_>>(), [5]);
}

#[test]
fn fuzz_journal_reader() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/journal");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("1.stdout"), vec![b's'; 400]).unwrap();
    let words: &[&[u8]] = &[
        b"tj",
        b"\x01",
        b"\x03\x01",
        b"\x06\x01",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"{\"from\":3,\"head\":0,\"ring\":0}",
        b"{\"from\":3,\"head\":4,\"ring\":8,\"header\":64}",
        b"{\"from\":3,\"head\":18446744073709551615,\"ring\":1}",
        b"\"queued\": true",
    ];
    trl_testkit::fuzz(&corpus, words, |bytes| {
        std::fs::write(dir.path().join("journal-1.log"), bytes).unwrap();
        read_everything(dir.path())
    });
}

/// A byte that tells where it belongs, so that shifted or overwritten data differs.
fn numbered(offset: u64) -> u8 {
    (offset / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[(offset % 8) as usize]
}

fn append_numbered(journal: &mut Journal, exec: &mut ExecJournal, count: usize) {
    let from = exec.total(Stream::Stdout);
    let bytes: Vec<u8> = (from..from + count as u64).map(numbered).collect();
    journal.append(exec, Stream::Stdout, &bytes);
}

#[test]
fn nobody_else_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, SMALL);
    let mut exec = journal.begin(1, &begun());
    append_numbered(&mut journal, &mut exec, 2_000_000);
    for name in ["journal-1.log", "1.stdout"] {
        let meta = std::fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn what_was_told_is_synced_once_for_all_and_only_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = journal(&dir, Caps { head: 4096, ring: 1 << 20 });
    let mut first = journal.begin(1, &begun());
    let mut second = journal.begin(2, &begun());
    journal.end(&mut first, &end(0, 0));
    journal.sync();
    assert!(!journal.log.is_synced());
    journal.survive_power_cuts();
    journal.log.sync();
    assert!(journal.log.is_synced());
    append_numbered(&mut journal, &mut second, 200_000);
    assert!(journal.log.has_new_files(), "the name of the spill file is to be synced, too");
    journal.end(&mut second, &end(200_000, 0));
    assert!(!journal.log.is_synced());
    journal.sync();
    assert!(journal.log.is_synced());
}
