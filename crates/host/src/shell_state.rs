//! What is known of the shell's state: what it printed last, and what happened since.
//!
//! It survives the shell: a new one is given this state. It knows nothing of processes.

use std::collections::{BTreeMap, BTreeSet};

use trl_protocol::fault::Fault;
use trl_protocol::wire::RunSpec;

use crate::shell::dialect::Dialect;
use crate::shell::plain;
use crate::shell::snapshot::Snapshot;

/// Commands that may wait to be entered into the shell's history.
const UNRECORDED: usize = 200;

#[derive(Debug)]
pub(crate) struct ShellState {
    /// The last that the shell has printed; None if it has never done so.
    snapshot: Option<Snapshot>,
    /// In place of one that was never printed.
    none: Snapshot,
    cwd: String,
    /// The directory as it is on disk.
    saved_cwd: String,
    last_status: i32,
    /// Commands that left the state alone and are not in the shell's history yet.
    unrecorded: Vec<String>,
    /// To be part of the next result.
    note: Option<String>,
    /// How often the session got a new shell or a new host.
    restarts: u64,
}

impl ShellState {
    pub(crate) fn new(
        snapshot: Option<Snapshot>,
        cwd: String,
        note: Option<String>,
        restarts: u64,
    ) -> ShellState {
        ShellState {
            snapshot,
            none: Snapshot::default(),
            saved_cwd: cwd.clone(),
            cwd,
            last_status: 0,
            unrecorded: Vec::new(),
            note,
            restarts,
        }
    }

    /// The last printed state, or an empty one.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        self.snapshot.as_ref().unwrap_or(&self.none)
    }

    /// The last printed state.
    pub(crate) fn known(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    pub(crate) fn cwd(&self) -> &str {
        &self.cwd
    }

    pub(crate) fn set_cwd(&mut self, cwd: String) {
        self.cwd = cwd;
    }

    pub(crate) fn last_status(&self) -> i32 {
        self.last_status
    }

    pub(crate) fn set_last_status(&mut self, status: i32) {
        self.last_status = status;
    }

    /// How often the session got a new shell or a new host.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }

    /// The session has a new shell, in this directory.
    pub(crate) fn mark_restarted(&mut self, cwd: String) {
        self.restarts += 1;
        self.cwd = cwd;
    }

    // Notes.

    pub(crate) fn set_note(&mut self, note: String) {
        self.note = Some(note);
    }

    pub(crate) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    fn add_note(&mut self, note: String) {
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {note}"),
            None => note,
        });
    }

    // Commands and the history.

    /// Whether the shell's state after the command is the state before it.
    pub(crate) fn is_left_alone_by(&self, run: &RunSpec) -> bool {
        self.unrecorded.len() < UNRECORDED
            && run.env.is_empty()
            && run.working_dir.is_none()
            && self.known().is_some_and(|snapshot| plain::leaves_state_alone(&run.command, snapshot))
    }

    /// Whether this command may look at a history that lacks commands before it.
    pub(crate) fn needs_history_for(&self, run: &RunSpec) -> bool {
        !self.unrecorded.is_empty() && !self.is_left_alone_by(run)
    }

    pub(crate) fn record_later(&mut self, command: String) {
        self.unrecorded.push(command);
    }

    pub(crate) fn take_unrecorded(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unrecorded)
    }

    /// A variable that the shell would not set is refused before anything runs.
    pub(crate) fn check_env(
        &self,
        env: &BTreeMap<String, String>,
        dialect: &dyn Dialect,
    ) -> Result<(), Fault> {
        let fixed = |name: &&String| self.snapshot().readonly.contains(*name) || dialect.is_fixed(name);
        match env.keys().find(fixed) {
            None => Ok(()),
            Some(name) => Err(Fault::invalid(format!(
                "param `env`: {name} is readonly in this session's shell; use another name, or another session. The command did not run"
            ))
            .with_details(serde_json::json!({ "field": format!("env.{name}") }))),
        }
    }

    // What the shell prints.

    /// Takes over what the shell has printed. True if it differs from what is on disk.
    pub(crate) fn learn(&mut self, snapshot: Snapshot) -> bool {
        let newly: BTreeSet<String> =
            snapshot.too_large.difference(&self.snapshot().too_large).cloned().collect();
        if let Some(names) = (Snapshot { too_large: newly, ..Snapshot::default() }).lacks() {
            self.add_note(format!("too large to be kept, a new shell would not have them: {names}"));
        }
        let changed = self.snapshot.as_ref() != Some(&snapshot) || self.saved_cwd != self.cwd;
        self.snapshot = Some(snapshot);
        changed
    }

    /// The state is about to be written to disk.
    pub(crate) fn mark_saved(&mut self) {
        self.saved_cwd.clone_from(&self.cwd);
    }
}
