//! What the daemon says is wrong, in the words of the tools.
//!
//! The daemon speaks to every transport: it names methods, params and settings that an MCP client
//! does not have. A model would try them. So advice is translated where there is a tool for it,
//! and left out where there is none.

use trl_protocol::{METHODS, Method as _, methods};

/// What can be told in other words; the first match of each row counts, in this order.
const PHRASES: &[(&str, &str)] = &[
    ("start it with stdin_open:true, or with exec.start", "run it with interactive=true"),
    ("run one with tty:true", "run one with interactive=true"),
    ("start it with tty:true", "run it with interactive=true"),
    ("session.list lists them", "list_sessions lists them"),
    ("send it in parts with exec.write", "send it in parts with input"),
    (
        "end one with session.destroy, or start the daemon with a larger TRL_MAX_SESSIONS",
        "end one with end_session",
    ),
    ("use another, or make one with a larger limits.max_queue", "use another session"),
    ("queue with wait_s, cancel it, or use another session", "cancel it, or use another session"),
    ("make one with agent.create", "your user makes one with `trl agent create NAME`"),
    ("agent.create makes one", "your user makes one with `trl agent create NAME`"),
    (
        "this assignment needs the param `harness_session_id`",
        "your client has not told which session of it this is; use the scope project or global",
    ),
    ("this assignment needs the param `project`", "the project directory is not known; use another scope"),
    ("param `command` of mail.autorespond", "`command`"),
    ("param `until.log.pattern` of exec.wait", "`log`"),
    ("param `until.port.port` of exec.wait", "`port`"),
    ("param `until.port.http_path` of exec.wait", "`http_path`"),
    ("param `working_dir`", "`cwd`"),
    ("param `session_id`", "`session`"),
    ("param `name`", "`session`"),
    ("param `data`", "`text`"),
    ("param `max_output_bytes`", "`max_output`"),
    ("param `", "`"),
];

/// The tool that does what a method does.
const TOOLS: &[(&str, &str)] = &[
    (methods::ExecRun::NAME, "run"),
    (methods::ExecStream::NAME, "run"),
    (methods::ExecStart::NAME, "run"),
    (methods::ExecOutput::NAME, "output"),
    (methods::ExecWrite::NAME, "input"),
    (methods::ExecScreen::NAME, "screen"),
    (methods::ExecWait::NAME, "wait"),
    (methods::ExecCancel::NAME, "cancel"),
    (methods::SessionList::NAME, "list_sessions"),
    (methods::SessionDestroy::NAME, "end_session"),
    (methods::MailSendAndWait::NAME, "send_and_wait"),
    (methods::MailSend::NAME, "send"),
    (methods::MailInbox::NAME, "inbox"),
    (methods::MailAwaitReply::NAME, "await_reply"),
    (methods::MailCheckReply::NAME, "check_reply"),
    (methods::AgentUse::NAME, "use"),
];

pub(crate) fn of_tools(message: &str) -> String {
    let mut text = message.to_owned();
    for (said, meant) in PHRASES {
        text = text.replace(said, meant);
    }
    let clauses: Vec<&str> = text.split("; ").collect();
    let (problem, advice) = clauses.split_first().unwrap_or((&"", &[]));
    let kept = advice.iter().filter(|clause| !is_foreign(clause)).copied();
    let text = std::iter::once(*problem).chain(kept).collect::<Vec<_>>().join("; ");
    TOOLS.iter().fold(text, |text, (method, tool)| text.replace(method, tool))
}

/// Whether a clause tells what to do by means that MCP clients do not have.
fn is_foreign(clause: &str) -> bool {
    let has_tool = |method: &str| TOOLS.iter().any(|(known, _)| *known == method);
    clause.contains("TRL_")
        || clause.contains(" details")
        || clause.contains("wait_s")
        || METHODS.iter().any(|method| clause.contains(method.name) && !has_tool(method.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_tools_offer_is_advised() {
        for (said, told) in [
            (
                "this command has no open stdin; start it with stdin_open:true, or with exec.start",
                "this command has no open stdin; run it with interactive=true",
            ),
            (
                "there is no session \"x\"; session.list lists them",
                "there is no session \"x\"; list_sessions lists them",
            ),
            (
                "there are already 2 sessions, as many as this daemon allows; end one with session.destroy, or start the daemon with a larger TRL_MAX_SESSIONS",
                "there are already 2 sessions, as many as this daemon allows; end one with end_session",
            ),
            (
                "session s-1 ended: it had no command for 1 s; idle_timeout_s of session.create, or TRL_MAX_IDLE_SEC, allows more",
                "session s-1 ended: it had no command for 1 s",
            ),
            (
                "e-1 ended before what was waited for came; its result is in details",
                "e-1 ended before what was waited for came",
            ),
            (
                "param `working_dir`: \"x\" is not a directory; the command did not run",
                "`cwd`: \"x\" is not a directory; the command did not run",
            ),
            (
                "the daemon ends; what was sent stays sent, and mail.await_reply finds a reply later",
                "the daemon ends; what was sent stays sent, and await_reply finds a reply later",
            ),
            (
                "this assignment needs the param `harness_session_id`",
                "your client has not told which session of it this is; use the scope project or global",
            ),
            ("plain", "plain"),
        ] {
            assert_eq!(of_tools(said), told);
        }
    }
}
