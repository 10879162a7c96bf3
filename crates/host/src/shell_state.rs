//! What is known of the shell's state: what it printed last, and what happened since.
//!
//! It survives the shell: a new one is given this state. It knows nothing of processes.

use std::collections::{BTreeMap, BTreeSet};

use trl_protocol::fault::Fault;
use trl_protocol::wire::{RunSpec, SessionSpec};

use crate::shell::dialect::{Dialect, is_special};
use crate::shell::snapshot::{Hidden, Snapshot};
use crate::shell::{assigns, plain};

/// Commands that may wait to be entered into the shell's history.
const UNRECORDED: usize = 200;

#[derive(Debug)]
pub(crate) struct ShellState {
    /// The last that the shell has printed; None if it has never done so.
    snapshot: Option<Snapshot>,
    /// Code of the user's runs around every command. Looked up once per state, not per command.
    has_hooks: bool,
    /// In place of one that was never printed.
    none: Snapshot,
    cwd: String,
    /// The directory as it is on disk.
    saved_cwd: String,
    last_status: i32,
    /// Commands that left the state alone and are not in the shell's history yet.
    unrecorded: Vec<String>,
    /// A command that sets TERM runs, or ran last.
    sets_term: bool,
    /// To be part of the next result.
    note: Option<String>,
    /// The next result is of a command in a new shell.
    replaced: bool,
    /// How often the session got a new shell or a new host.
    restarts: u64,
}

impl ShellState {
    pub(crate) fn new(snapshot: Option<Snapshot>, cwd: String, restarts: u64) -> ShellState {
        ShellState {
            has_hooks: snapshot.as_ref().is_some_and(plain::has_hooks),
            snapshot,
            none: Snapshot::default(),
            saved_cwd: cwd.clone(),
            cwd,
            last_status: 0,
            unrecorded: Vec::new(),
            sets_term: false,
            replaced: false,
            note: None,
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

    /// What the programs of a command with `replace_env` are not to see. `begun` is the environment that the
    /// session began with, which a shell that has printed nothing yet still has.
    pub(crate) fn hidden_beside(
        &self,
        begun: &BTreeMap<String, String>,
        given: &BTreeMap<String, String>,
    ) -> Hidden {
        let is_left = |name: &&String| !self.known().is_some_and(|known| known.keeps_from_programs(name));
        self.snapshot().exported_beside(begun.keys().filter(is_left), given)
    }

    /// Names of the variables that programs see since they were given with the session or exported in it.
    pub(crate) fn env_keys(&self, spec: &SessionSpec) -> Vec<String> {
        let is_left = |name: &&String| !self.known().is_some_and(|known| known.keeps_from_programs(name));
        let given = spec.env_keys.iter().filter(is_left);
        let is_new = |name: &&String| !spec.env.contains_key(*name) && !is_shells_own(name);
        let since = self.snapshot().exported.iter().filter(is_new);
        given.chain(since).cloned().collect::<BTreeSet<String>>().into_iter().collect()
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
        self.sets_term = false;
    }

    // Notes.

    pub(crate) fn set_note(&mut self, note: String) {
        self.note = Some(note);
    }

    pub(crate) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// The next command runs in a new shell.
    pub(crate) fn mark_replaced(&mut self) {
        self.replaced = true;
    }

    pub(crate) fn take_replaced(&mut self) -> bool {
        std::mem::take(&mut self.replaced)
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
        !self.has_hooks
            && self.unrecorded.len() < UNRECORDED
            && run.env.is_empty()
            && !run.replace_env
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

    /// A command begins. On a terminal it gets the usual TERM if this is true: the session's is still the
    /// daemon's own, which is none for terminals, and the command sets no other.
    pub(crate) fn begin_with_usual_term(&mut self, spec: &SessionSpec, run: &RunSpec) -> bool {
        // A variable that is given to the command is put back after it.
        self.sets_term = !run.env.contains_key("TERM") && assigns::sets(&run.command, "TERM");
        run.tty && !self.sets_term && self.wants_usual_term(spec)
    }

    /// Whether the session's TERM is still the daemon's own: neither given nor set by anybody.
    pub(crate) fn wants_usual_term(&self, spec: &SessionSpec) -> bool {
        let is_given = self.snapshot().own_term || spec.env_keys.iter().any(|name| name == "TERM");
        let begun = || spec.env.get("TERM").is_some_and(|term| term == "dumb");
        let is_dumb = |entry: &String| {
            entry.split_once('=').is_some_and(|(_, value)| value.trim_matches(['"', '\'']) == "dumb")
        };
        let current = self.known().map(|known| known.variables.get("TERM").is_some_and(is_dumb));
        !is_given && current.unwrap_or_else(begun)
    }

    // What the shell prints.

    /// Takes over what the shell has printed. True if it differs from what is on disk.
    pub(crate) fn learn(&mut self, mut snapshot: Snapshot) -> bool {
        snapshot.own_term = self.snapshot().own_term || std::mem::take(&mut self.sets_term);
        let newly: BTreeSet<String> =
            snapshot.too_large.difference(&self.snapshot().too_large).cloned().collect();
        if let Some(names) = (Snapshot { too_large: newly, ..Snapshot::default() }).lacks() {
            self.add_note(format!("too large to be kept, a new shell would not have them: {names}"));
        }
        let changed = self.snapshot.as_ref() != Some(&snapshot) || self.saved_cwd != self.cwd;
        self.has_hooks = plain::has_hooks(&snapshot);
        self.snapshot = Some(snapshot);
        changed
    }

    /// The state is about to be written to disk.
    pub(crate) fn mark_saved(&mut self) {
        self.saved_cwd.clone_from(&self.cwd);
    }
}

/// Whether the shell exports it by itself. zsh makes a LOGNAME.
fn is_shells_own(name: &str) -> bool {
    is_special(name) || name == "LOGNAME"
}

#[cfg(test)]
mod tests {
    use trl_protocol::wire::{Mode, Stdin};

    use super::*;

    fn run(command: &str) -> RunSpec {
        RunSpec {
            command: command.to_owned(),
            timeout_ms: None,
            stdin: Stdin::Empty,
            env: BTreeMap::new(),
            working_dir: None,
            max_output: 0,
            mode: Mode::Collect,
            wait_ms: 0,
            background: false,
            tty: false,
            run_id: None,
            merge_stderr: false,
            replace_env: false,
        }
    }

    fn state() -> ShellState {
        ShellState::new(Some(Snapshot::default()), "/".to_owned(), 0)
    }

    #[test]
    fn a_command_that_may_change_something_needs_the_history_of_those_before() {
        let mut state = state();
        assert!(state.is_left_alone_by(&run("ls")) && !state.needs_history_for(&run("cd /")));
        state.record_later("ls".to_owned());
        assert!(!state.needs_history_for(&run("ls")) && state.needs_history_for(&run("cd /")));
        assert_eq!(state.take_unrecorded(), ["ls"]);
        assert!(!state.needs_history_for(&run("cd /")));
    }

    #[test]
    fn without_a_printed_state_every_command_may_change_something() {
        let state = ShellState::new(None, "/".to_owned(), 0);
        assert!(!state.is_left_alone_by(&run("ls")));
        let with_dir = RunSpec { working_dir: Some("/tmp".to_owned()), ..run("ls") };
        assert!(!self::state().is_left_alone_by(&with_dir));
    }

    #[test]
    fn hooks_count_from_the_state_that_has_them() {
        let mut state = state();
        let mut hooked = Snapshot::default();
        hooked.functions.insert("precmd".to_owned(), String::new());
        assert!(state.learn(hooked) && !state.is_left_alone_by(&run("ls")));
        assert!(state.learn(Snapshot::default()) && state.is_left_alone_by(&run("ls")));
    }

    #[test]
    fn only_what_differs_from_the_disk_is_written() {
        let mut state = state();
        assert!(!state.learn(Snapshot::default()));
        state.set_cwd("/tmp".to_owned());
        assert!(state.learn(Snapshot::default()));
        state.mark_saved();
        assert!(!state.learn(Snapshot::default()));
    }

    #[test]
    fn who_sets_term_has_it_from_then_on() {
        let mut state = state();
        state.sets_term = assigns::sets("export TERM=dumb", "TERM");
        assert!(state.learn(Snapshot::default()) && state.snapshot().own_term);
        assert!(!state.learn(Snapshot::default()) && state.snapshot().own_term);
        let mut lost = self::state();
        lost.sets_term = true;
        // The shell that was told so has ended.
        lost.mark_restarted("/".to_owned());
        assert!(!lost.learn(Snapshot::default()) || !lost.snapshot().own_term);
    }

    #[test]
    fn what_becomes_too_large_is_noted_once() {
        let mut state = state();
        let large = Snapshot { too_large: BTreeSet::from(["big".to_owned()]), ..Snapshot::default() };
        state.set_note("first".to_owned());
        state.learn(large.clone());
        let note = state.take_note().unwrap();
        assert!(note.starts_with("first; too large to be kept") && note.ends_with("big"), "{note}");
        state.learn(large);
        assert_eq!(state.take_note(), None);
    }
}
