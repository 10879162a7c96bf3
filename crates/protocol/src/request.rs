//! One enum for everything that can be asked, and the one place that reads it.
//!
//! `requests!` is the registry: a new method does not compile until it has a params
//! and a reply type, and the runtime's exhaustive match decides what it means.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fault::{Code, Fault};
use crate::{agent, change, contact, exec, mail, session, system};

macro_rules! requests {
    ($($variant:ident($params:ty) -> $reply:ty = $method:literal;)*) => {
        /// A request, read and typed.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Request { $($variant($params),)* }

        impl Request {
            pub const METHODS: &[&str] = &[$($method,)*];

            pub fn parse(method: &str, params: Value) -> Result<Request, Fault> {
                match method {
                    $($method => read::<$params>(method, params).map(Request::$variant),)*
                    unknown => Err(unknown_method(unknown)),
                }
            }

            pub fn method(&self) -> &'static str {
                match self { $(Request::$variant(_) => $method,)* }
            }

            /// The JSON Schema of each method's params.
            pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($method, schemars::schema_for!($params)),)*]
            }

            /// The JSON Schema of the `data` that each method is answered with.
            pub fn reply_schemas() -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($method, crate::written_schema::<$reply>()),)*]
            }
        }
    };
}

requests! {
    SessionCreate(session::CreateParams) -> session::Created = "session.create";
    SessionList(system::NoParams) -> session::SessionList = "session.list";
    SessionInfo(session::SessionParams) -> session::SessionInfo = "session.info";
    SessionDestroy(session::DestroyParams) -> session::Destroyed = "session.destroy";
    SessionRestart(session::SessionParams) -> session::Restarted = "session.restart";
    SessionBind(session::BindParams) -> session::Bound = "session.bind";
    SessionAttach(session::AttachParams) -> session::Detached = "session.attach";
    SessionInput(session::InputParams) -> session::InputTaken = "session.input";
    SessionResize(session::ResizeParams) -> session::Resized = "session.resize";
    ExecRun(exec::RunParams) -> exec::RunReply = "exec.run";
    ExecStream(exec::RunParams) -> exec::StreamReply = "exec.stream";
    ExecStart(exec::RunParams) -> exec::Started = "exec.start";
    ExecAttach(exec::AttachParams) -> exec::StreamReply = "exec.attach";
    ExecOutput(exec::OutputParams) -> exec::OutputReply = "exec.output";
    ExecWrite(exec::WriteParams) -> exec::Written = "exec.write";
    ExecResize(exec::ResizeParams) -> exec::Resized = "exec.resize";
    ExecScreen(exec::ScreenParams) -> exec::Screen = "exec.screen";
    ExecCancel(exec::CancelParams) -> exec::Cancelled = "exec.cancel";
    ExecBind(exec::BindParams) -> exec::Bound = "exec.bind";
    ExecWait(exec::WaitParams) -> exec::Waited = "exec.wait";
    ExecList(exec::ListParams) -> exec::ExecList = "exec.list";
    ExecInfo(exec::ExecParams) -> exec::ExecInfo = "exec.info";
    SystemPing(system::NoParams) -> system::Pong = "system.ping";
    SystemStats(system::NoParams) -> system::Stats = "system.stats";
    SystemInfo(system::NoParams) -> system::SystemInfo = "system.info";
    SystemRuntimes(system::NoParams) -> system::Runtimes = "system.runtimes";
    EventsSubscribe(change::SubscribeParams) -> change::SubscriptionOver = "events.subscribe";
    SystemShutdown(system::ShutdownParams) -> system::ShuttingDown = "system.shutdown";
    AgentCreate(agent::CreateParams) -> agent::Created = "agent.create";
    AgentList(system::NoParams) -> agent::AgentList = "agent.list";
    AgentUse(agent::UseParams) -> agent::Used = "agent.use";
    AgentWhoami(agent::CallerParams) -> agent::Whoami = "agent.whoami";
    AgentSessions(agent::SessionsParams) -> agent::Sessions = "agent.sessions";
    AgentHeartbeat(agent::CallerParams) -> agent::Beat = "agent.heartbeat";
    AgentRelease(agent::CallerParams) -> agent::Released = "agent.release";
    MailSend(mail::SendParams) -> mail::Sent = "mail.send";
    MailStatus(mail::MessageParams) -> mail::Status = "mail.status";
    MailInbox(mail::InboxParams) -> mail::Inbox = "mail.inbox";
    MailCheckReply(mail::MessageParams) -> mail::CheckedReply = "mail.check_reply";
    MailAwaitReply(mail::AwaitParams) -> mail::AwaitedReply = "mail.await_reply";
    MailSendAndWait(mail::SendAndWaitParams) -> mail::AwaitedReply = "mail.send_and_wait";
    MailReply(mail::ReplyParams) -> mail::Sent = "mail.reply";
    MailSubscribe(agent::CallerParams) -> mail::SubscriptionOver = "mail.subscribe";
    MailHeld(agent::CallerParams) -> mail::Held = "mail.held";
    MailDeadLetters(agent::CallerParams) -> mail::DeadLetters = "mail.dead_letters";
    MailAutorespond(mail::AutorespondParams) -> mail::Autorespond = "mail.autorespond";
    MailReset(mail::ResetParams) -> mail::Reset = "mail.reset";
    ContactRequest(contact::ContactParams) -> contact::ContactRow = "contact.request";
    ContactAccept(contact::ContactParams) -> contact::ContactRow = "contact.accept";
    ContactDecline(contact::ContactParams) -> contact::ContactRow = "contact.decline";
    ContactBlock(contact::ContactParams) -> contact::ContactRow = "contact.block";
    ContactList(agent::CallerParams) -> contact::ContactList = "contact.list";
    ContactPresence(agent::CallerParams) -> contact::PresenceList = "contact.presence";
}

impl Request {
    /// Whether it is answered only when somebody leaves: all that it is for are its events.
    pub fn is_endless(&self) -> bool {
        matches!(self, Request::MailSubscribe(_) | Request::EventsSubscribe(_) | Request::SessionAttach(_))
    }
}

fn read<P: DeserializeOwned>(method: &str, params: Value) -> Result<P, Fault> {
    let params = match params {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::Object(_) => params,
        // serde would read a list as fields in order, which nobody means.
        _ => return Err(Fault::invalid(format!("params of {method} must be an object"))),
    };
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        bad_params(method, &path, &error.into_inner().to_string())
    })
}

/// A field that is an object. serde would read a list as its fields in order, which nobody means.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    use serde::Deserialize as _;
    use serde::de::Error as _;
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Value::Array(_)) => Err(D::Error::custom("an object is expected, not a list")),
        Some(value) => T::deserialize(value).map(Some).map_err(D::Error::custom),
    }
}

/// Turns serde's words into ours: the field, what is wrong with it, the nearest known name.
fn bad_params(method: &str, path: &str, problem: &str) -> Fault {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    if problem.starts_with("unknown field") {
        let names = quoted(problem);
        if let Some((unknown, known)) = names.split_first() {
            let hint = nearest(unknown, known.iter().map(String::as_str))
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_else(|| format!("; known: {}", known.join(", ")));
            return Fault::invalid(format!("{method} has no param `{unknown}`{hint}"))
                .with_details(serde_json::json!({ "field": unknown }));
        }
    }
    if problem.starts_with("missing field")
        && let Some(missing) = quoted(problem).first()
    {
        return Fault::invalid(format!("{method} needs the param `{missing}`"))
            .with_details(serde_json::json!({ "field": missing }));
    }
    Fault::invalid(format!("param `{path}` of {method}: {problem}"))
        .with_details(serde_json::json!({ "field": path }))
}

fn unknown_method(method: &str) -> Fault {
    let shown: String = method.chars().take(80).collect();
    let hint = nearest(method, Request::METHODS.iter().copied())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_else(|| "; `system.info` tells what this daemon can do".to_owned());
    Fault::new(Code::MethodNotFound, format!("there is no method `{shown}`{hint}"))
}

/// The known name closest to what was written, if it is close at all.
pub fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > 80 {
        return None;
    }
    known
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_read_into_its_own_variant() {
        let request =
            Request::parse("exec.run", json!({"session_id": "s-00000001", "command": "true"})).unwrap();
        assert!(matches!(request, Request::ExecRun(ref p) if p.command == "true"));
        assert!(matches!(Request::parse("session.list", Value::Null), Ok(Request::SessionList(_))));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("exec.run", json!({"sesion_id": "x", "command": "true"}), "did you mean `session_id`"),
            ("exec.run", json!({"session_id": "x"}), "needs the param `command`"),
            ("exec.run", json!({"session_id": 5, "command": "true"}), "param `session_id`"),
            ("exec.run", json!({"session_id": "x", "command": "y", "env": {"A": 1}}), "param `env.A`"),
            ("exec.run", json!([1]), "must be an object"),
            ("system.ping", json!([]), "must be an object"),
            ("exec.run", json!(["s-00000001", "true"]), "must be an object"),
            ("session.list", json!({"x": 1}), "`x`"),
            (
                "session.create",
                json!({"limits": [null, null]}),
                "param `limits` of session.create: an object",
            ),
            ("exec.wait", json!({"exec_id": "e", "until": []}), "param `until`"),
            ("exec.wait", json!({"exec_id": "e", "until": {"log": ["x"]}}), "param `until`"),
            ("exec.output", json!({"exec_id": "e", "stream": "both"}), "param `stream`"),
        ];
        for (method, params, expected) in cases {
            let fault = Request::parse(method, params).unwrap_err();
            assert_eq!(fault.code, Code::InvalidParams);
            assert!(fault.message.contains(expected), "{method}: {}", fault.message);
        }
    }

    #[test]
    fn an_unknown_method_gets_the_nearest_name() {
        let fault = Request::parse("exec.rum", Value::Null).unwrap_err();
        assert_eq!(fault.code, Code::MethodNotFound);
        assert!(fault.message.contains("exec.run"), "{}", fault.message);
    }
}
