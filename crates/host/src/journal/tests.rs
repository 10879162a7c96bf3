use super::*;
use proptest::prelude::*;

const SMALL: Caps = Caps { head: 1000, ring: 3000 };

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
        let mut exec = journal.begin(1, &"x");
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
    let mut exec = journal.begin(1, &"x");
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
        let mut exec = journal.begin(number, &"x");
        journal.append(&mut exec, Stream::Stdout, &vec![b'a'; 200_000]);
        journal.append(&mut exec, Stream::Stderr, &vec![b'b'; 60_000]);
        journal.end(&mut exec, &"done");
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
    let mut exec = journal.begin(1, &"x");
    std::fs::remove_dir_all(dir.path()).unwrap();
    journal.append(&mut exec, Stream::Stdout, &vec![b'z'; 70_000]);
    let all: Vec<u8> = read_all(&journal, &exec, 0, 4096).into_iter().flat_map(|(_, b)| b).collect();
    assert_eq!(all.len() as u64 + exec.dropped(Stream::Stdout), 70_000);
    assert_eq!(all.len(), 67_000 + 3_000 - exec.dropped(Stream::Stdout) as usize);
}
