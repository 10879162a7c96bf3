//! A session outlives its host: what the next host needs is on disk, and is taken up from there.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use trl_journal::{Caps, Journal, KeptExec, SessionFile, Since, recover};
use trl_protocol::ids::IDENTITY;
use trl_protocol::wire::{Mode, RunSpec, SessionSpec, Stdin};

use crate::activity::timestamp;
use crate::commands::{Exec, Input, Phase};
use crate::shell::snapshot::Snapshot;

/// A session's shell as it is described on disk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedState {
    /// None if it has never printed one.
    pub(crate) snapshot: Option<Snapshot>,
    #[serde(flatten)]
    pub(crate) since: Since,
}

/// What a session begins with that was made from another one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// None if the shell of that one has never printed its state.
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) cwd: String,
}

/// What a host begins with.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) journal: Journal,
    pub(crate) execs: BTreeMap<u64, Box<Exec>>,
    pub(crate) next_number: u64,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) cwd: String,
    pub(crate) command_count: u64,
    pub(crate) restarts: u64,
    pub(crate) created_at: String,
    pub(crate) note: Option<String>,
    /// The session had a shell before.
    pub(crate) is_replaced: bool,
}

impl Past {
    pub(crate) fn of(spec: &mut SessionSpec, caps: Caps) -> io::Result<Past> {
        let dir = Path::new(&spec.state_dir);
        if spec.resume {
            return Past::left_in(dir, caps);
        }
        let mut past = Past::none(spec, Journal::open(dir, caps)?)?;
        if let Some(begin) = spec.begin_with.take() {
            let Begin { snapshot, cwd } = serde_json::from_value(begin)?;
            past.cwd = cwd;
            past.snapshot = snapshot;
            if let Some(snapshot) = &mut past.snapshot {
                adopt(snapshot, &spec.env, &spec.env);
                past.note = snapshot.lacks().map(|names| {
                    format!("this session was made from another one, without {names}: too large to be kept")
                });
            }
            return Ok(past);
        }
        match kept_state(spec) {
            Some(Kept::State(snapshot, cwd)) => {
                past.note = Some(format!(
                    "this shell continues with the directory, variables, functions and options of an earlier session{}",
                    without(&snapshot)
                ));
                past.is_replaced = true;
                past.cwd = cwd;
                past.snapshot = Some(*snapshot);
            }
            Some(Kept::NotForThis) => past.note = Some(NOT_CONTINUED.to_owned()),
            None => {}
        }
        Ok(past)
    }

    fn none(spec: &SessionSpec, journal: Journal) -> io::Result<Past> {
        Ok(Past {
            journal,
            execs: BTreeMap::new(),
            next_number: 1,
            snapshot: None,
            cwd: spec.working_dir.clone(),
            command_count: 0,
            restarts: 0,
            created_at: timestamp(),
            note: None,
            is_replaced: false,
        })
    }

    fn left_in(dir: &Path, caps: Caps) -> io::Result<Past> {
        let file: SessionFile<SavedState> = SessionFile::read(dir)?;
        let (journal, kept) = recover::resume(dir, caps)?;
        let cwd = file.info.working_dir;
        let last = kept.keys().next_back().copied().unwrap_or(0);
        let since = file.state.since.commands(&kept);
        Ok(Past {
            journal,
            execs: kept.into_iter().map(|(number, exec)| (number, Box::new(finished(exec, &cwd)))).collect(),
            next_number: file.state.since.next_number.max(last + 1),
            cwd,
            command_count: file.info.command_count + since,
            restarts: file.info.restarts + 1,
            created_at: file.info.created_at,
            note: Some(format!(
                "the session was lost and restarted; {}",
                state_of_new_shell(file.state.snapshot.as_ref())
            )),
            is_replaced: true,
            snapshot: file.state.snapshot,
        })
    }
}

const NOT_CONTINUED: &str = "the state that an earlier session has left was not restored: that session was isolated \
    in another way or in another directory, and its functions and variables would act with the rights of this one";

/// What an earlier session of the same name has left.
enum Kept {
    /// With its directory.
    State(Box<Snapshot>, String),
    NotForThis,
}

/// What an isolated session has left is not to act where that session could not.
fn may_continue(earlier: &SessionSpec, now: &SessionSpec) -> bool {
    let isolation = |spec: &SessionSpec| spec.isolation.clone().filter(|isolation| !isolation.is_none());
    match isolation(earlier) {
        None => true,
        earlier_isolation => earlier_isolation == isolation(now) && earlier.working_dir == now.working_dir,
    }
}

/// The state of an earlier session and its directory. Only the same kind of shell can read it.
fn kept_state(spec: &SessionSpec) -> Option<Kept> {
    let kept = Path::new(spec.restore_state.as_ref()?);
    let file: SessionFile<SavedState> = SessionFile::read_from(kept).ok()?;
    if !may_continue(&file.spec, spec) {
        return Some(Kept::NotForThis);
    }
    let mut snapshot = file.state.snapshot.filter(|_| file.spec.dialect == spec.dialect)?;
    adopt(&mut snapshot, &file.spec.env, &spec.env);
    Some(Kept::State(Box::new(snapshot), file.info.working_dir))
}

/// Makes the state of a session that began with `before` that of one that begins with `now`. What the
/// first was given and did not change is what the second is given; so is what tells which session it is.
fn adopt(snapshot: &mut Snapshot, before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) {
    let is_unchanged = |name: &str, declared: &str| {
        before.get(name).is_some_and(|value| {
            ["=\"", "='", "="].iter().any(|begin| {
                let end = begin.trim_start_matches('=');
                declared.trim_end().ends_with(&format!("{begin}{value}{end}"))
            })
        })
    };
    let is_identity = |name: &str| IDENTITY.contains(&name);
    let mut given = Snapshot::of_env(now).variables;
    // A variable that the first was given and that is missing was unset there.
    given.retain(|name, _| is_identity(name) || !before.contains_key(name) || snapshot.knows(name));
    snapshot.variables.retain(|name, declared| !is_identity(name) && !is_unchanged(name, declared));
    given.retain(|name, _| !snapshot.knows(name));
    let variables = &snapshot.variables;
    snapshot.exported.retain(|name| variables.contains_key(name) || snapshot.readonly.contains(name));
    snapshot.exported.extend(given.keys().cloned());
    snapshot.variables.append(&mut given);
}

/// Which state a new shell has, as the end of a note.
pub(crate) fn state_of_new_shell(snapshot: Option<&Snapshot>) -> String {
    match snapshot {
        Some(snapshot) => {
            format!("this command ran in a new shell with the restored state{}", without(snapshot))
        }
        None => "this command ran in a new shell without the state of the last one, which had not been saved"
            .to_owned(),
    }
}

/// What a restored state lacks, as part of a note.
fn without(snapshot: &Snapshot) -> String {
    snapshot.lacks().map(|names| format!(" (without {names}: too large to be kept)")).unwrap_or_default()
}

/// A command of the host before, as this one keeps it.
fn finished(kept: KeptExec, cwd: &str) -> Exec {
    Exec {
        number: kept.journal.number(),
        created_at: kept.start.created_at.clone(),
        started_at: kept.started_at(),
        finished_at: kept.finished_at(),
        phase: Phase::Finished { outcome: kept.outcome(cwd), at: Instant::now() },
        spec: RunSpec {
            command: kept.start.command,
            timeout_ms: None,
            stdin: Stdin::Empty,
            env: BTreeMap::new(),
            working_dir: None,
            max_output: kept.start.max_output,
            mode: Mode::Detached,
            wait_ms: 0,
            background: kept.start.background,
            tty: kept.start.tty,
            run_id: kept.start.run_id,
            merge_stderr: false,
            replace_env: false,
        },
        journal: kept.journal,
        outputs: [None, None],
        input: Input::Closed,
        text: None,
        shown: Vec::new(),
        requester: None,
        repeated: Vec::new(),
        notes: Vec::new(),
        had_to_wait: false,
        retried: false,
        hidden: None,
        messages: None,
        held_until: None,
        writes: VecDeque::new(),
        terminal: Vec::new(),
        waiting: None,
        next_look: None,
        tty: None,
    }
}
