//! Every method there is: the one place that has a method's name as a string.
//!
//! A row says what the method does, its types, whether a call may be retried, the scope
//! that a token needs, whether it is an endless subscription, and its events. The contract
//! (`docs/contract/protocol.json`) and the client's typed calls are made from it. A new row
//! does not compile until the runtime (`crates/runtime/src/dispatch.rs`) or the mail engine
//! answers it.

use crate::method::{CHANGES, READS, Retry, Rules, Scope};
use crate::system::NoParams;
use crate::{agent, change, contact, exec, file, grant, mail, session, system};

/// Rules of a method that carries out a command.
const RUNS: Rules = Rules { retry: Retry::ById("run_id"), ..CHANGES };
/// Sends a message; the caller may choose the id under which that happens once.
const SENDS: Rules = Rules { retry: Retry::ById("send_id"), ..CHANGES };
/// What is told about a command while it runs.
const EXEC_EVENTS: &[&str] = &["gap", "queued", "started", "stderr", "stdout", "waiting"];

crate::registry! {
pub mod methods;

pub enum Request => Reply {
    /// Creates a session: a living shell whose state carries over from command to command.
    SessionCreate = "session.create", session::CreateParams => session::Created, CHANGES;
    /// Lists the sessions.
    SessionList = "session.list", session::ListParams => session::SessionList, READS;
    /// Describes one session.
    SessionInfo = "session.info", session::SessionParams => session::SessionInfo, READS;
    /// Ends a session and every process it started.
    SessionDestroy = "session.destroy", session::DestroyParams => session::Destroyed, CHANGES;
    /// Starts a new shell for a session and restores its state.
    SessionRestart = "session.restart", session::RestartParams => session::Restarted, CHANGES;
    /// Creates a session with the settings of another one and the state of its shell.
    SessionFork = "session.fork", session::ForkParams => session::Created, CHANGES;
    /// Gives a living session another name.
    SessionRename = "session.rename", session::RenameParams => session::Renamed, CHANGES;
    /// Ends a session when the connection that asked closes, or no longer.
    SessionBind = "session.bind", session::BindParams => session::Bound, CHANGES;
    /// Shows a session as on a terminal, until the client detaches.
    SessionAttach = "session.attach", session::AttachParams => session::Detached,
        Rules { endless: true, events: &["stdout"], ..CHANGES }, read if |params| params.read_only;
    /// Types into an attached session.
    SessionInput = "session.input", session::InputParams => session::InputTaken, CHANGES;
    /// Changes the size of an attached session's terminal.
    SessionResize = "session.resize", session::ResizeParams => session::Resized,
        Rules { retry: Retry::Safe, ..CHANGES };
    /// Runs a command and answers with its output when it has ended.
    ExecRun = "exec.run", exec::RunParams => exec::RunReply, RUNS;
    /// Runs a command; its output comes as events.
    ExecStream = "exec.stream", exec::RunParams => exec::StreamReply, Rules { events: EXEC_EVENTS, ..RUNS };
    /// Starts a command and answers at once.
    ExecStart = "exec.start", exec::RunParams => exec::Started, RUNS;
    /// Sends the output of a command, running or finished, as events from an offset on.
    ExecAttach = "exec.attach", exec::AttachParams => exec::StreamReply, Rules { events: EXEC_EVENTS, ..READS };
    /// Returns a range of a command's kept output.
    ExecOutput = "exec.output", exec::OutputParams => exec::OutputReply, READS;
    /// Writes to the stdin of a running command.
    ExecWrite = "exec.write", exec::WriteParams => exec::Written, Rules { retry: Retry::ById("write_id"), ..CHANGES };
    /// Changes the size of a command's terminal.
    ExecResize = "exec.resize", exec::ResizeParams => exec::Resized, Rules { retry: Retry::Safe, ..CHANGES };
    /// Returns the screen of a command's terminal.
    ExecScreen = "exec.screen", exec::ScreenParams => exec::Screen, READS;
    /// Ends a command with signals; its shell and the shell's state stay.
    ExecCancel = "exec.cancel", exec::CancelParams => exec::Cancelled, CHANGES;
    /// Ends a command when the connection that asked closes, or no longer.
    ExecBind = "exec.bind", exec::BindParams => exec::Bound, CHANGES;
    /// Waits until a command ends, prints something or opens a port.
    ExecWait = "exec.wait", exec::WaitParams => exec::Waited, Rules { scope: Scope::Run, ..READS },
        // Trying ports reaches beyond this daemon.
        read if |params| params.until.as_ref().is_none_or(|until| until.port.is_none());
    /// Lists the commands of one session or of all.
    ExecList = "exec.list", exec::ListParams => exec::ExecList, READS;
    /// Describes one command.
    ExecInfo = "exec.info", exec::ExecParams => exec::ExecInfo, READS;
    /// Reads a part of a file, as the session sees it.
    FileRead = "file.read", file::ReadParams => file::ReadReply, Rules { scope: Scope::Run, ..READS };
    /// Writes a file as a whole, or adds to its end.
    FileWrite = "file.write", file::WriteParams => file::WriteReply, CHANGES;
    /// Replaces a text in a file.
    FileEdit = "file.edit", file::EditParams => file::EditReply, CHANGES;
    /// Lists a directory.
    FileList = "file.list", file::ListParams => file::ListReply, Rules { scope: Scope::Run, ..READS };
    /// Describes one file, directory or symbolic link.
    FileStat = "file.stat", file::StatParams => file::FileEntry, Rules { scope: Scope::Run, ..READS };
    /// Renames a file or directory.
    FileMove = "file.move", file::MoveParams => file::Moved, CHANGES;
    /// Removes a file or directory.
    FileRemove = "file.remove", file::RemoveParams => file::Removed, CHANGES;
    /// Makes a directory.
    FileMakeDir = "file.make_dir", file::MakeDirParams => file::MadeDir, CHANGES;
    /// Answers at once.
    SystemPing = "system.ping", NoParams => system::Pong, READS;
    /// Counts sessions, commands and resources.
    SystemStats = "system.stats", NoParams => system::Stats, READS;
    /// Describes the daemon: version, methods, shells, limits.
    SystemInfo = "system.info", NoParams => system::SystemInfo, READS;
    /// Lists where sessions can be created.
    SystemRuntimes = "system.runtimes", NoParams => system::Runtimes, READS;
    /// Sends an event for each change of sessions, commands, agents and mail.
    EventsSubscribe = "events.subscribe", change::SubscribeParams => change::SubscriptionOver,
        Rules { endless: true, events: &["change", "missed", "subscribed"], ..READS };
    /// Ends the daemon.
    SystemShutdown = "system.shutdown", system::ShutdownParams => system::ShuttingDown,
        Rules { scope: Scope::Admin, ..CHANGES };
    /// Lets an agent of another daemon create sessions here, within limits, and sends it the token by mail.
    RuntimeGrant = "runtime.grant", grant::GrantParams => grant::Granted, Rules { scope: Scope::Admin, ..CHANGES };
    /// Ends a grant and the sessions under it.
    RuntimeRevoke = "runtime.revoke", grant::RevokeParams => grant::Revoked,
        Rules { retry: Retry::Safe, scope: Scope::Admin, ..CHANGES };
    /// Lists the grants of this daemon.
    RuntimeGrants = "runtime.grants", NoParams => grant::Grants, Rules { scope: Scope::Admin, ..READS };
    /// Sends an event when mail has arrived.
    MailSubscribe = "mail.subscribe", agent::CallerParams => mail::SubscriptionOver,
        Rules { endless: true, events: &["mail"], ..CHANGES };
}

Mail(pub enum MailRequest => MailReply) {
    /// Creates an agent.
    AgentCreate = "agent.create", agent::CreateParams => agent::Created, CHANGES;
    /// Lists the agents of this daemon.
    AgentList = "agent.list", NoParams => agent::AgentList, READS;
    /// Opens a session of an agent and binds it to the connection.
    AgentUse = "agent.use", agent::UseParams => agent::Used, CHANGES;
    /// Tells which agent and session the caller is.
    AgentWhoami = "agent.whoami", agent::CallerParams => agent::Whoami, Rules { scope: Scope::Run, ..READS };
    /// Lists the sessions of an agent.
    AgentSessions = "agent.sessions", agent::SessionsParams => agent::Sessions, Rules { scope: Scope::Run, ..READS };
    /// Says that a session of an agent is still there.
    AgentHeartbeat = "agent.heartbeat", agent::CallerParams => agent::Beat, CHANGES;
    /// Ends a session of an agent.
    AgentRelease = "agent.release", agent::ReleaseParams => agent::Released, CHANGES;
    /// Assigns an agent to a harness session, a project directory, or everything else.
    AgentAssign = "agent.assign", agent::AssignParams => agent::Assignment, Rules { retry: Retry::Safe, ..CHANGES };
    /// Removes an assignment.
    AgentUnassign = "agent.unassign", agent::UnassignParams => agent::Unassigned, Rules { retry: Retry::Safe, ..CHANGES };
    /// Lists assignments, and tells which agent a harness session or directory gets.
    AgentAssignments = "agent.assignments", agent::AssignmentsParams => agent::Assignments, Rules { scope: Scope::Run, ..READS };
    /// Sends a message.
    MailSend = "mail.send", mail::SendParams => mail::Sent, SENDS;
    /// Tells what became of a sent message.
    MailStatus = "mail.status", mail::MessageParams => mail::Status, Rules { scope: Scope::Run, ..READS };
    /// Returns messages that wait for the caller's session.
    MailInbox = "mail.inbox", mail::InboxParams => mail::Inbox, CHANGES;
    /// Tells of new mail by sender and id, or waits for some.
    MailNotices = "mail.notices", mail::NoticesParams => mail::Notices, CHANGES;
    /// Returns the reply to a message if there is one.
    MailCheckReply = "mail.check_reply", mail::CheckParams => mail::CheckedReply, CHANGES;
    /// Waits for the reply to a message.
    MailAwaitReply = "mail.await_reply", mail::AwaitParams => mail::AwaitedReply, CHANGES;
    /// Sends a message and waits for its reply.
    MailSendAndWait = "mail.send_and_wait", mail::SendAndWaitParams => mail::AwaitedReply, SENDS;
    /// Replies to a message.
    MailReply = "mail.reply", mail::ReplyParams => mail::Sent, CHANGES;
    /// Lists mail that is held back.
    MailHeld = "mail.held", agent::CallerParams => mail::Held, Rules { scope: Scope::Run, ..READS };
    /// Lists mail that could not be delivered.
    MailDeadLetters = "mail.dead_letters", agent::CallerParams => mail::DeadLetters, Rules { scope: Scope::Run, ..READS };
    /// Switches the automatic responder, or tells its state.
    MailAutorespond = "mail.autorespond", mail::AutorespondParams => mail::Autorespond, CHANGES;
    /// Starts a new encrypted channel to another agent.
    MailReset = "mail.reset", mail::ResetParams => mail::Reset, CHANGES;
    /// Asks another agent to become a contact.
    ContactRequest = "contact.request", contact::ContactParams => contact::ContactRow, CHANGES;
    /// Accepts a contact.
    ContactAccept = "contact.accept", contact::ContactParams => contact::ContactRow, CHANGES;
    /// Declines a contact.
    ContactDecline = "contact.decline", contact::ContactParams => contact::ContactRow, CHANGES;
    /// Blocks a contact.
    ContactBlock = "contact.block", contact::ContactParams => contact::ContactRow, CHANGES;
    /// Lists the contacts.
    ContactList = "contact.list", agent::CallerParams => contact::ContactList, Rules { scope: Scope::Run, ..READS };
    /// Tells which contacts can be reached now.
    ContactPresence = "contact.presence", agent::CallerParams => contact::PresenceList, Rules { scope: Scope::Run, ..READS };
}
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_looking_needs_no_more_than_read() {
        let scope = |method: &str, params| Request::parse(method, params).unwrap().scope();
        assert_eq!(scope("session.list", json!({})), Scope::Read);
        assert_eq!(scope("session.create", json!({})), Scope::Run);
        let attach = |read_only| json!({"session_id": "s", "read_only": read_only});
        assert_eq!(scope("session.attach", attach(true)), Scope::Read);
        assert_eq!(scope("session.attach", attach(false)), Scope::Run);
        let wait = |until| json!({"exec_id": "e", "until": until});
        assert_eq!(scope("exec.wait", wait(json!({"exit": true}))), Scope::Read);
        assert_eq!(scope("exec.wait", wait(json!({"port": {"port": 1}}))), Scope::Run);
        assert_eq!(scope("system.shutdown", json!({})), Scope::Admin);
    }

    #[test]
    fn a_method_is_in_the_registry_once_and_documented() {
        for (index, method) in METHODS.iter().enumerate() {
            assert!(method.about.trim().ends_with('.'), "{}", method.name);
            assert!(METHODS[..index].iter().all(|other| other.name != method.name), "{}", method.name);
            let shares_one = |field: &str| {
                (method.params_schema)().get("properties").is_some_and(|it| it.get(field).is_some())
            };
            if let Retry::ById(field) = method.rules.retry {
                assert!(shares_one(field), "{} has no param {field}", method.name);
            }
        }
    }
}
