//! From the wish for a new shell to one that is ready: the user's start-up files, then what restores its state.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::event::{AskState, Effect, Fresh, Note, Purpose, StartupFailure};
use super::stage::{Restore, Stage, StartupFiles};
use super::transitions::ask_state;
use super::{Driver, Effects, LINE_TIMEOUT, STARTUP_TIMEOUT};

/// How long the first prompt alone is waited for, if the user's start-up files are read.
const FIRST_PROMPT_DUE: Duration = Duration::from_millis(300);
/// How long a shell that is interrupted in its start-up files may take to leave them.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn on_spawned(
        &mut self,
        stage: Stage,
        fresh: Fresh,
        now: Instant,
        effects: &mut Effects,
    ) -> Stage {
        let Stage::Replacing = stage else { return stage };
        self.answer_restart(effects);
        self.repeats = 0;
        starting(fresh, now)
    }

    pub(super) fn on_spawn_failed(&mut self, stage: Stage, effects: &mut Effects) -> Stage {
        let Stage::Replacing = stage else { return stage };
        self.answer_restart(effects);
        Stage::Dead
    }

    fn answer_restart(&mut self, effects: &mut Effects) {
        if std::mem::take(&mut self.restart) {
            effects.push_back(Effect::AnswerRestart);
        }
    }

    /// A shell that is at rest is replaced at once, by [`Driver::handle`], and so is one that reads its start-up
    /// files; one that prints its state afterwards; one that has a command not at all.
    pub(super) fn on_restart(&mut self, stage: Stage, effects: &mut Effects) -> Stage {
        if stage.foreground().is_some() {
            effects.push_back(Effect::RefuseRestart);
            return stage;
        }
        self.restart = true;
        if stage.reads_startup_files() && !self.ending {
            effects.push_back(Effect::KillForeground);
            return self.replace(effects);
        }
        stage
    }

    /// A new shell, because somebody wants one.
    pub(super) fn replace(&self, effects: &mut Effects) -> Stage {
        effects.extend([Effect::KillShell, Effect::Note(Note::Restarted), Effect::SpawnShell]);
        Stage::Replacing
    }
}

pub(super) fn starting(fresh: Fresh, now: Instant) -> Stage {
    let Fresh { restore, startup_files } = fresh;
    Stage::Starting {
        restore: if restore { Restore::Compare } else { Restore::Scripts(VecDeque::new()) },
        deadline: now + if startup_files { STARTUP_TIMEOUT } else { LINE_TIMEOUT },
        prompt_due: startup_files.then(|| now + FIRST_PROMPT_DUE),
        startup_files: if startup_files { StartupFiles::Read } else { StartupFiles::None },
    }
}

/// The interrupt may reach the shell only when it has left its files by itself. A line of the engine's own comes before
/// the first command, so that it is not the command's line that is interrupted.
pub(super) fn on_startup_interrupted(mut stage: Stage, now: Instant) -> Stage {
    if let Stage::Starting { restore, deadline, startup_files, .. } = &mut stage {
        if let Restore::Scripts(scripts) = restore
            && scripts.is_empty()
        {
            scripts.push_back(String::new());
        }
        if *startup_files == StartupFiles::Read {
            *startup_files = StartupFiles::Interrupted;
            *deadline = now + LEAVING_TIMEOUT;
        }
    }
    stage
}

/// A shell follows that does not read the files.
pub(super) fn without_files(failure: StartupFailure, effects: &mut Effects) -> Stage {
    let failed = Effect::StartupFailed(failure);
    effects.extend([Effect::KillForeground, failed, Effect::KillShell, Effect::SpawnShell]);
    Stage::Replacing
}

/// The shell has read its files; it gets the last known state.
pub(super) fn after_files(how: Restore, now: Instant, effects: &mut Effects) -> Stage {
    match how {
        Restore::Compare => {
            let purpose = Purpose::Baseline;
            ask_state(AskState { exec: None, purpose, status: Some(0), prompt_back: false }, now, effects)
        }
        Restore::Scripts(scripts) => restore(scripts, now, effects),
    }
}

/// The next script, or none: then the shell is ready.
pub(super) fn restore(mut scripts: VecDeque<String>, now: Instant, effects: &mut Effects) -> Stage {
    let Some(script) = scripts.pop_front() else { return Stage::Idle };
    effects.push_back(Effect::Restore(script));
    let restore = Restore::Scripts(scripts);
    Stage::Starting {
        restore,
        deadline: now + LINE_TIMEOUT,
        prompt_due: None,
        startup_files: StartupFiles::None,
    }
}
