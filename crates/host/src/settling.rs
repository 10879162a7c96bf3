//! Between two commands: the shell puts back what held for one only, and tells its state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trl_protocol::fault::Fault;

use crate::host::{Host, Purpose, Settling, Stage};
use crate::shell::dialect::{self, Settle};
use crate::shell::snapshot::Snapshot;
use crate::shell::{Held, careful, may_write, memory_of, text, umask_of};

/// How long a shell that has much to print may take for it.
const LARGE_PATIENCE: Duration = Duration::from_secs(30);

impl Host {
    /// The command before was answered, but what it changed is not known yet.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling(_) | Stage::Clearing { .. }) && self.ending.is_none()
    }

    /// Commands beside the shell that waited for its state have it now.
    pub(crate) fn let_go_on(&mut self) {
        if self.held_back.is_empty() || self.is_settling() {
            return;
        }
        for (requester, run) in std::mem::take(&mut self.held_back) {
            let answer = self.on_run(requester, run);
            self.reply(requester, answer);
        }
    }

    /// A variable that the shell would not set is told before anything runs.
    pub(crate) fn check_env(&self, env: &BTreeMap<String, String>) -> Result<(), Fault> {
        let dialect = dialect::of(self.spec.dialect);
        let fixed = |name: &&String| self.snapshot.readonly.contains(*name) || dialect.is_fixed(name);
        match env.keys().find(fixed) {
            None => Ok(()),
            Some(name) => Err(Fault::invalid(format!(
                "param `env`: {name} is readonly in this session's shell; use another name, or another session. The command did not run"
            ))
            .with_details(serde_json::json!({ "field": format!("env.{name}") }))),
        }
    }

    /// Asks the shell to put back what held for one command and to print its state.
    pub(crate) fn settle(&mut self, number: Option<u64>, purpose: Purpose, status: i32, prompt_back: bool) {
        self.last_status = status;
        let unrecorded = std::mem::take(&mut self.unrecorded);
        let exec = number.and_then(|number| self.execs.get(&number));
        let Some(shell) = &self.shell else { return };
        // Before the first print, what a variable goes back to is what the session began with.
        let begun = if self.has_snapshot { Snapshot::default() } else { Snapshot::of_env(&self.spec.env) };
        let careful = memory_of(shell.pid) > careful::FROM_BYTES;
        let script = shell.dialect.settle_script(&Settle {
            history: unrecorded
                .iter()
                .chain(exec.map(|exec| &exec.spec.command))
                .map(|command| text::of(command.as_bytes()))
                .collect(),
            cwd_back: exec.and_then(|exec| exec.spec.working_dir.as_ref()).map(|_| self.cwd.as_str()),
            env_back: exec.map(|exec| exec.spec.env.keys().map(String::as_str).collect()).unwrap_or_default(),
            state: if self.has_snapshot { &self.snapshot } else { &begun },
            prompt_back,
            status,
            careful,
        });
        let (Ok(script), Ok(dump)) = (Held::script(&script), Held::new(b"")) else {
            // Without descriptors there is no snapshot this time; the last one stays.
            self.stage = Stage::Idle;
            return;
        };
        let mute = !may_write(shell.pid);
        let told_to = if mute { "/dev/null".to_owned() } else { dump.path() };
        let line = shell.dialect.settle_line(&script.path(), &told_to, false);
        self.stage = Stage::Settling(Settling { script, dump, mute, uncovered: false, purpose });
        self.say(Some(line));
        if careful {
            self.stage_deadline = Some(Instant::now() + LARGE_PATIENCE);
        }
    }

    pub(crate) fn on_settled(&mut self, settling: Settling) {
        self.close_aftermath();
        if settling.mute {
            // The last snapshot stays.
            return;
        }
        let Some(shell) = &self.shell else { return };
        let dump = settling.dump.read().unwrap_or_default();
        match shell.dialect.read_dump(&text::of(&dump)) {
            // The last one stays, as far as it goes.
            Some(snapshot) if snapshot.partial && self.has_snapshot => {}
            Some(mut snapshot) => {
                snapshot.shed();
                snapshot.umask = umask_of(shell.pid).unwrap_or_default();
                match settling.purpose {
                    Purpose::Baseline => self.restore(&snapshot),
                    Purpose::AfterCommand | Purpose::History => self.learn_state(snapshot),
                }
            }
            None if settling.purpose == Purpose::AfterCommand && shell.may_need_repeats() => {
                let line = shell.dialect.settle_line(&settling.script.path(), &settling.dump.path(), false);
                self.stage = Stage::Settling(settling);
                self.say_again(&line);
            }
            None if !settling.uncovered => {
                let line = shell.dialect.settle_line(&settling.script.path(), &settling.dump.path(), true);
                self.stage = Stage::Settling(Settling { uncovered: true, ..settling });
                self.say(Some(line));
            }
            // It has lost the words for it: the last good snapshot goes into a new shell.
            None if settling.purpose == Purpose::AfterCommand => {
                self.abandon_shell("the command before had left the shell unusable")
            }
            // A shell that never could is used without.
            None => {}
        }
    }
}
