//! Those who want to know of everything that begins and ends here.

use trl_protocol::fault::Fault;
use trl_protocol::wire::FromHost;

use crate::exec::Requester;
use crate::host::Host;
use crate::streams::Subscription;

impl Host {
    /// The end of a command, without its output.
    pub(crate) fn on_wait(&mut self, requester: Requester, number: u64) -> Result<Option<FromHost>, Fault> {
        self.known(number)?;
        let Requester { link, req } = requester;
        // Whoever is beyond every byte and may be sent none hears only the end.
        let next = [u64::MAX; 2];
        self.subscriptions.push(Subscription { link, req, exec: number, next, credit: 0, owner: false });
        self.complete_subscriptions();
        Ok(None)
    }

    /// A command has reached its next state.
    pub(crate) fn tell_watchers(&mut self, number: u64) {
        if self.watchers.is_empty() {
            return;
        }
        let Some(exec) = self.execs.get(&number) else { return };
        let info = Box::new(exec.info(self.spec.session_id, self.shell_pid()));
        for Requester { link, req } in self.watchers.clone() {
            self.send(link, &FromHost::Changed { req, exec: Some(info.clone()), session: None });
        }
    }

    /// The session has a new shell.
    pub(crate) fn tell_watchers_of_shell(&mut self) {
        for Requester { link, req } in self.watchers.clone() {
            let session = Some(Box::new(self.info()));
            self.send(link, &FromHost::Changed { req, exec: None, session });
        }
    }
}
