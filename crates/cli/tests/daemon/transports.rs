//! One meaning, many ways in: every method is answered the same over each of them.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Map, Value, json};
use trl_protocol::METHODS;
use trl_testkit::process::{self, Signal};
use trl_testkit::{Connection, Daemon, GUARD, Http, WebSocket, every, trl, wait_until};

/// A daemon that serves all of them at once.
struct Served {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    unix: Connection,
    http: Http,
    ws: WebSocket,
    _home: Daemon,
}

const WAYS: [&str; 4] = ["unix", "stdio", "http", "websocket"];

impl Served {
    fn start() -> Served {
        let home = Daemon::builder(trl!()).prepare();
        let log = home.work().join("log");
        let mut child = home
            .command()
            .args(["serve", "--stdin", "--http", "127.0.0.1:0", "--socket"])
            .arg(home.socket())
            .env("TRL_AUTH_TOKEN", "token-of-this-test")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut address = None;
        wait_until("the log tells the address of HTTP", GUARD, || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            address = text.lines().find_map(|line| line.split_once("http=")?.1.trim().parse().ok());
            address.is_some()
        });
        let http = Http { address: address.unwrap(), token: "token-of-this-test".to_owned() };
        Served {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            unix: Connection::open(&home.socket()).unwrap(),
            ws: WebSocket::open(&http),
            http,
            _home: home,
        }
    }

    /// The whole response.
    fn ask(&mut self, way: &str, method: &str, params: &Value) -> Value {
        let line = json!({"id": 77, "method": method, "params": params}).to_string();
        match way {
            "unix" => {
                self.unix.send_line(&line);
                loop {
                    let answer = self.unix.next_line().unwrap();
                    if answer.get("ok").is_some() {
                        return answer;
                    }
                }
            }
            "stdio" => {
                writeln!(self.stdin, "{line}").unwrap();
                loop {
                    let mut text = String::new();
                    self.stdout.read_line(&mut text).unwrap();
                    let answer: Value = serde_json::from_str(&text).unwrap();
                    if answer.get("ok").is_some() {
                        return answer;
                    }
                }
            }
            "http" => self.http.ask("POST", "/", &[], line.as_bytes()).json(),
            _ => {
                self.ws.send(&line);
                loop {
                    let answer = self.ws.next_message().unwrap();
                    if answer.get("ok").is_some() {
                        return answer;
                    }
                }
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        process::signal(self.child.id() as i32, Signal::TERM);
        let _status = self.child.wait();
    }
}

/// What is the same whenever it is asked: names, types and words, but not times, ids and counts.
fn shape(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(key, value)| (key.clone(), shape(key, value))).collect::<Map<_, _>>(),
        ),
        Value::Array(items) => Value::Array(items.iter().take(1).map(|item| shape(key, item)).collect()),
        Value::String(_) if matches!(key, "code" | "state" | "stdout" | "stderr" | "event" | "field") => {
            value.clone()
        }
        Value::String(_) => json!("a string"),
        Value::Number(_) if matches!(key, "exit_code" | "id") => value.clone(),
        Value::Number(_) => json!("a number"),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

/// A request that does something where that is possible. Each way has its own session.
fn params(method: &str, session: &str, exec: &str, way: &str) -> Value {
    let command = json!({"session_id": session, "command": "echo out; echo err >&2; (exit 3)"});
    match method {
        "session.create" => json!({"shell": "sh", "name": format!("made-{way}")}),
        "session.destroy" => json!({"session_id": format!("made-{way}")}),
        m::SessionInfo::NAME | m::SessionRestart::NAME | m::ExecList::NAME | "exec.cancel" => {
            json!({"session_id": session})
        }
        m::ExecRun::NAME | "exec.stream" => command,
        "exec.start" => json!({"session_id": session, "command": "true"}),
        "exec.output" => json!({"exec_id": exec, "stream": "stdout"}),
        "exec.write" => json!({"exec_id": exec, "data": "x"}),
        m::ExecAttach::NAME | m::ExecInfo::NAME | m::ExecWait::NAME | "exec.screen" => {
            json!({"exec_id": exec})
        }
        "session.resize" => json!({"session_id": session, "rows": 20, "cols": 80}),
        "session.input" => json!({"session_id": session, "data": ""}),
        "exec.resize" => json!({"exec_id": exec, "rows": 20, "cols": 80}),
        m::FileRead::NAME | "file.stat" => json!({"session_id": session, "path": "/etc/passwd"}),
        "file.list" => json!({"session_id": session, "path": "/", "glob": "etc"}),
        "file.write" => json!({"session_id": session, "path": format!("written-{way}"), "content": "x"}),
        "file.edit" => json!({"session_id": session, "path": "/etc/passwd", "old": "\u{1}", "new": ""}),
        "file.move" => json!({"session_id": session, "from": "/no/such", "to": "/no/other"}),
        "file.remove" => json!({"session_id": session, "path": "/no/such"}),
        "file.make_dir" => json!({"session_id": session, "path": format!("made-{way}")}),
        "agent.create" => json!({"name": format!("agent-{way}")}),
        "agent.use" => json!({"agent": format!("agent-{way}")}),
        "mail.send" => json!({"to": "nobody", "text": "x"}),
        _ => json!({}),
    }
}

#[test]
fn every_method_is_answered_the_same_over_every_transport() {
    let mut served = Served::start();
    let mut made = Vec::new();
    for way in WAYS {
        let name = format!("session-{way}");
        let created = served.ask(way, m::SessionCreate::NAME, &json!({"shell": "bash", "name": name}));
        assert_eq!(created["ok"], true, "{way}: {created}");
        let ran = served.ask(way, m::ExecRun::NAME, &json!({"session_id": name, "command": "echo first"}));
        assert_eq!(ran["data"]["stdout"], "first\n", "{way}: {ran}");
        let agent = format!("agent-of-{way}");
        served.ask(way, m::AgentCreate::NAME, &json!({"name": agent}));
        // On no connection: what it binds would go when the way's own asks for another.
        let token = served.ask("http", m::AgentUse::NAME, &json!({"agent": agent}))["data"]["token"].clone();
        assert!(token.is_string(), "{way}");
        made.push((way, name, ran["data"]["exec_id"].as_str().unwrap().to_owned(), token));
    }
    let takes_a_token: Vec<&str> = METHODS
        .iter()
        .filter(|method| (method.params_schema)().get("properties").is_some_and(|it| it.get("as").is_some()))
        .map(|method| method.name)
        .collect();
    // What is made must be there before it is ended, and the last of all ends everything.
    let mut methods: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
    methods.sort_by_key(|method| (*method == m::SessionDestroy::NAME, *method == m::SystemShutdown::NAME));
    every(methods, |method| {
        let wrong = json!({"no_such_param": 1});
        let refused: Vec<Value> = WAYS.iter().map(|way| served.ask(way, method, &wrong)).collect();
        assert_eq!(refused[0]["error"]["code"], "INVALID_PARAMS", "{method}: {}", refused[0]);
        assert!(refused.iter().all(|it| it == &refused[0]), "{method}: {refused:#?}");
        // These end with their daemon or never, and have tests of their own.
        if matches!(
            *method,
            m::SystemShutdown::NAME
                | m::EventsSubscribe::NAME
                | m::MailSubscribe::NAME
                | m::SessionAttach::NAME
        ) {
            return;
        }
        let answers: Vec<(&str, Value)> = made
            .iter()
            .map(|(way, session, exec, token)| {
                let mut params = params(method, session, exec, way);
                if takes_a_token.contains(method) {
                    params["as"] = token.clone();
                }
                (*way, shape("", &served.ask(way, method, &params)))
            })
            .collect();
        for (way, answer) in &answers {
            assert_eq!(answer, &answers[0].1, "{method} over {way}, and over {}", answers[0].0);
        }
    });
}

#[test]
fn nothing_but_answers_is_printed_to_stdout() {
    let mut served = Served::start();
    served.ask("stdio", m::SessionCreate::NAME, &json!({"shell": "bash", "name": "s"}));
    served.ask(
        "stdio",
        m::ExecRun::NAME,
        &json!({"session_id": "s", "command": "echo x; echo y >&2; echo z >/dev/tty"}),
    );
    writeln!(served.stdin, "nonsense").unwrap();
    let mut text = String::new();
    served.stdout.read_line(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["error"]["code"], "PARSE_ERROR");
}
