//! `wait`: until a command is over, has said something, or answers at a port.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use trl_protocol::{Code, Fault, methods};

use super::output::{Excerpt, info, shown};
use super::run::seconds;
use crate::fault;
use crate::readings::Offsets;
use crate::report::Report;
use crate::toolbox::{Call, Hints, Spec};

/// How long a call takes at most unless it says so: clients give up on calls after a minute.
const WAIT_S: f64 = 30.0;

pub(crate) struct Wait;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// From `run`
    exec_id: String,
    /// Until this text is in its output. Default: until it exits
    #[serde(default)]
    log: Option<String>,
    /// `log` is a regular expression
    #[serde(default)]
    regex: bool,
    /// Until this port takes connections
    #[serde(default)]
    port: Option<u16>,
    /// With port: until this path is answered well over HTTP
    #[serde(default)]
    http_path: Option<String>,
    /// As in output
    #[serde(default)]
    after: Option<Offsets>,
    /// Return after this long in any case. Default 30
    #[serde(default)]
    timeout_s: Option<f64>,
}

impl Args {
    fn until(&self) -> Result<Value, Fault> {
        if self.http_path.is_some() && self.port.is_none() {
            return Err(Fault::invalid("`http_path` needs `port`: which port is asked for it?"));
        }
        match (&self.log, self.port) {
            (Some(_), Some(_)) => Err(Fault::invalid("wait for `log` or for `port`, not for both")),
            (Some(pattern), None) => Ok(json!({ "log": { "pattern": pattern, "regex": self.regex } })),
            (None, Some(port)) => {
                let mut until = json!({ "port": port });
                if let Some(path) = &self.http_path {
                    until["http_path"] = json!(path);
                }
                Ok(json!({ "port": until }))
            }
            (None, None) => Ok(json!({ "exit": true })),
        }
    }
}

impl Spec for Wait {
    const NAME: &'static str = "wait";
    const ABOUT: &'static str =
        "Wait until a command exits, prints something or opens a port, and see its new output.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = Args;
    type Answer = Report;

    async fn call(args: Args, call: Call) -> Result<(String, Report), Fault> {
        let timeout = seconds("timeout_s", args.timeout_s.unwrap_or(WAIT_S))?.as_secs_f64();
        let client = &call.guest.client;
        // Zero is for ever there, and at once here.
        let params =
            json!({ "exec_id": args.exec_id, "timeout_s": timeout.max(0.001), "until": args.until()? });
        let waited = call.teller.while_waiting(async {
            tokio::select! {
                waited = client.call_as::<methods::ExecWait, Value>(params) => waited.map_err(fault::of),
                () = call.ct.cancelled() => Err(Fault::internal("the wait was cancelled by the client")),
            }
        });
        let mut asked = Excerpt { after: args.after, ..Excerpt::default() };
        match waited.await {
            Ok(answer) => asked.matched = matched(&answer["matched"]),
            Err(fault) if fault.code == Code::WaitTimeout => {
                asked.notes.push(format!("the condition was not met within {timeout} s"));
            }
            Err(fault) if fault.code == Code::CommandFailed => {
                asked.notes.push("the command was over before what was waited for came".to_owned());
            }
            Err(fault) => return Err(fault),
        }
        let info = info(client, &args.exec_id).await?;
        shown(&call, info, asked).await
    }
}

/// In words; the end of a command is told anyway.
fn matched(matched: &Value) -> Option<String> {
    if let Some(text) = matched["log"]["text"].as_str() {
        return Some(format!(
            "found {text:?} in {}",
            matched["log"]["stream"].as_str().unwrap_or("its output")
        ));
    }
    let port = matched["port"]["port"].as_u64()?;
    Some(match matched["port"]["http_status"].as_u64() {
        Some(status) => format!("port {port} answers with HTTP status {status}"),
        None => format!("port {port} takes connections"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(args: Value) -> Result<Value, Fault> {
        serde_json::from_value::<Args>(args).unwrap().until()
    }

    #[test]
    fn one_thing_is_waited_for() {
        assert_eq!(until(json!({"exec_id": "e"})), Ok(json!({"exit": true})));
        assert_eq!(
            until(json!({"exec_id": "e", "log": "ready"})),
            Ok(json!({"log": {"pattern": "ready", "regex": false}}))
        );
        assert_eq!(
            until(json!({"exec_id": "e", "port": 80, "http_path": "/"})),
            Ok(json!({"port": {"port": 80, "http_path": "/"}}))
        );
        assert!(until(json!({"exec_id": "e", "port": 80, "log": "x"})).is_err());
        assert!(until(json!({"exec_id": "e", "http_path": "/"})).is_err());
    }

    #[test]
    fn what_came_is_told_in_words() {
        let log = json!({"log": {"stream": "stdout", "offset": 3, "text": "ready"}});
        assert_eq!(matched(&log), Some("found \"ready\" in stdout".to_owned()));
        let port = json!({"port": {"port": 80, "host": "localhost", "http_status": 200}});
        assert_eq!(matched(&port), Some("port 80 answers with HTTP status 200".to_owned()));
        assert_eq!(matched(&json!({"exit": true})), None);
    }
}
