//! A command that is sent again runs once.
//!
//! A client whose daemon died before it answered cannot know whether its command had arrived. It
//! sends it again under the same `run_id`; if the first one is here, the repetition only gets the
//! answer of that one.

use trl_protocol::fault::Fault;
use trl_protocol::ids::ExecId;
use trl_protocol::wire::{FromHost, Mode, RunSpec};

use super::Host;
use super::run::started;
use crate::commands::Requester;

impl Host {
    /// The command that this one repeats.
    pub(super) fn repeated_by(&self, run: &RunSpec) -> Result<Option<u64>, Fault> {
        let Some(id) = &run.run_id else { return Ok(None) };
        let first = self.commands.all().rev().find(|exec| exec.spec.run_id.as_ref() == Some(id));
        match first {
            Some(first) if first.spec.command != run.command => {
                let number = first.number;
                let exec = ExecId { session: self.spec.session_id, number };
                Err(Fault::invalid(format!("param `run_id`: {id:?} is that of another command, {exec}"))
                    .with_details(serde_json::json!({ "field": "run_id", "exec_id": exec })))
            }
            first => Ok(first.map(|exec| exec.number)),
        }
    }

    pub(super) fn answer_again(
        &mut self,
        requester: Requester,
        number: u64,
        mode: Mode,
    ) -> Result<Option<FromHost>, Fault> {
        let shell = self.shell_pid();
        let Some(exec) = self.commands.get_mut(number).filter(|_| mode != Mode::Stream) else {
            return self.on_attach(requester, number, [0, 0]);
        };
        if mode == Mode::Collect {
            exec.repeated.push(requester);
            self.answer(number);
            return Ok(None);
        }
        Ok(Some(started(requester.req, exec, shell)))
    }
}
