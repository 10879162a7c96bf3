//! Lines that are read: one request each.
//!
//! The envelope is read by hand rather than derived, because its faults differ: a line
//! that is no object has no id to answer to, everything else is told to its id.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use trl_protocol::methods::ExecRun;
use trl_protocol::request::nearest;
use trl_protocol::{Code, Fault, Method as _, Request, exec};

/// Longest id that is echoed: it is repeated in every event.
const MAX_ID_BYTES: usize = 1024;
const FIELDS: [&str; 3] = ["id", "method", "params"];

/// A request and the id to answer it with.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    /// As it was written: JSON, a string or a number.
    pub(crate) id: String,
    /// The id itself if it is a string.
    pub(crate) id_text: Option<String>,
    pub(crate) request: Request,
}

/// Why a line is no request, and the id to say so to.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) id: String,
    pub(crate) fault: Fault,
}

/// A line of the method that is called most, read without a tree of values between.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RunLine<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<Value>,
    params: Value,
    unknown: Option<String>,
}

pub(crate) fn read(line: &[u8]) -> Result<Call, Refusal> {
    let to_nobody = |fault| Refusal { id: "null".to_owned(), fault };
    let parse_error = |problem: String| to_nobody(Fault::new(Code::ParseError, problem));
    let text = std::str::from_utf8(line).map_err(|error| {
        parse_error(format!("the line is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    if let Some(call) = read_run(text) {
        return Ok(call);
    }
    let envelope: Envelope<'_> = serde_json::from_str(text)
        .map_err(|error| parse_error(format!("the line is not a JSON object: {error}")))?;
    let (id, id_text) = read_id(envelope.id).map_err(to_nobody)?;
    match read_request(envelope) {
        Ok(request) => Ok(Call { id, id_text, request }),
        Err(fault) => Err(Refusal { id, fault }),
    }
}

/// Whatever is unusual about the line is left to the way that all others go.
fn read_run(text: &str) -> Option<Call> {
    const NAME: &[u8] = b"\"exec.run\"";
    let start = &text.as_bytes()[..text.len().min(256)];
    if !text.starts_with('{') || !start.windows(NAME.len()).any(|word| word == NAME) {
        return None;
    }
    let line: RunLine<'_> = serde_json::from_str(text).ok()?;
    if line.method != ExecRun::NAME || !line.params.get().starts_with('{') {
        return None;
    }
    let params: exec::RunParams = serde_json::from_str(line.params.get()).ok()?;
    let (id, id_text) = read_id(Some(line.id)).ok()?;
    Some(Call { id, id_text, request: ExecRun::request(params) })
}

fn read_id(raw: Option<&RawValue>) -> Result<(String, Option<String>), Fault> {
    let bad = |problem: &str| {
        Err(Fault::invalid(format!("a request needs an `id`, a string or a number: {problem}"))
            .with_details(serde_json::json!({ "field": "id" })))
    };
    let Some(raw) = raw.map(RawValue::get) else { return bad("there is none") };
    if raw.len() > MAX_ID_BYTES {
        return bad(&format!("this one has {} bytes, at most {MAX_ID_BYTES} are echoed", raw.len()));
    }
    match raw.as_bytes().first() {
        Some(b'"') => match serde_json::from_str(raw) {
            Ok(text) => Ok((raw.to_owned(), Some(text))),
            // Half of a surrogate pair: JSON, but many programs cannot read it back.
            Err(_) => bad("this one is not Unicode text"),
        },
        Some(b'-' | b'0'..=b'9') if serde_json::from_str::<serde_json::Number>(raw).is_ok() => {
            Ok((raw.to_owned(), None))
        }
        Some(b'-' | b'0'..=b'9') => bad("no program can read a number that large back"),
        _ => bad(&format!("it is {}", raw.chars().take(80).collect::<String>())),
    }
}

fn read_request(envelope: Envelope<'_>) -> Result<Request, Fault> {
    if let Some(unknown) = envelope.unknown {
        let hint = nearest(&unknown, FIELDS.into_iter()).map_or_else(
            || format!("it has {}", FIELDS.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        let shown: String = unknown.chars().take(80).collect();
        return Err(Fault::invalid(format!("a request has no field `{shown}`; {hint}"))
            .with_details(serde_json::json!({ "field": shown })));
    }
    let bad_method = |problem: &str| {
        Err(Fault::invalid(format!("a request needs a `method`, a string: {problem}"))
            .with_details(serde_json::json!({ "field": "method" })))
    };
    let method = match envelope.method {
        Some(Value::String(method)) => method,
        Some(other) => {
            return bad_method(&format!("it is {}", other.to_string().chars().take(80).collect::<String>()));
        }
        None => return bad_method("there is none"),
    };
    Request::parse(&method, envelope.params)
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with id, method and params")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Envelope<'de>, M::Error> {
                let mut envelope = Envelope::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    match &*key {
                        "id" => envelope.id = Some(map.next_value()?),
                        "method" => envelope.method = Some(map.next_value()?),
                        "params" => envelope.params = map.next_value()?,
                        other => {
                            envelope.unknown = Some(other.to_owned());
                            // Read, not skipped: what nests too deep is no JSON for us, wherever it is.
                            map.next_value::<Value>()?;
                        }
                    }
                }
                Ok(envelope)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_as_they_were_written() {
        for id in ["1", "-5", "1.50", "18446744073709551616", "1e3", "\"x\"", "\"\\u00e9\"", "\"\""] {
            let call = read(format!(r#"{{"id":{id},"method":"system.ping"}}"#).as_bytes()).unwrap();
            assert_eq!(call.id, id);
        }
        let call = read(br#" {"method":"system.ping","params":null,"id":"w\n1"} "#).unwrap();
        assert_eq!(call.id_text.as_deref(), Some("w\n1"));
        assert_eq!(read(br#"{"id":1,"id":2,"method":"system.ping"}"#).unwrap().id, "2");
    }

    #[test]
    fn params_are_the_same_whichever_way_they_are_read() {
        let full = r#"{"session_id":"s","command":"a\n\u00e9","timeout_s":1.5,"env":{"A":"1","A":"2"},"stdin":"x",
            "working_dir":"/","run_id":"r","tty":false,"merge_stderr":true,"wait_s":0}"#;
        for params in [full, "{}", " {}", "null", r#"{"command":"a","command":"b"}"#, r#"{"argv":["a"]}"#] {
            let expected = Request::parse("exec.run", serde_json::from_str(params).unwrap());
            for line in [
                format!(r#"{{"id":1,"method":"exec.run","params":{params}}}"#),
                format!(r#"{{"params":{params},"method": "exec\u002erun","id":1}}"#),
            ] {
                let read = read(line.as_bytes()).map(|call| call.request).map_err(|refusal| refusal.fault);
                assert_eq!(read, expected, "{line}");
            }
        }
        let deep = "[".repeat(500) + &"]".repeat(500);
        for (line, words) in [
            (r#"{"id":1,"method":"exec.run","params":[null,"a"]}"#.to_owned(), "must be an object"),
            (r#"{"id":1,"method":5}"#.to_owned(), "needs a `method`, a string: it is 5"),
            (r#"[1,"exec.run",{"command":"a"}]"#.to_owned(), "the line is not a JSON object"),
            (r#"{"id":1,"method":"exec.run","params":{"comand":"a"}}"#.to_owned(), "did you mean `command`"),
            (
                r#"{"id":1,"method":"exec.run","params":{"command":5}}"#.to_owned(),
                "param `command` of exec.run",
            ),
            (r#"{"id":1,"method":"exec.run","params":{"env":{"A":1}}}"#.to_owned(), "param `env.A`"),
            (r#"{"id":1,"method":"exec.run","params":{},"more":1}"#.to_owned(), "no field `more`"),
            (
                r#"{"id":[],"method":"exec.run","params":{"command":"a"}}"#.to_owned(),
                "a request needs an `id`",
            ),
            (
                r#"{"id":1,"method":"exec.run","params":{"command":"\ud800"}}"#.to_owned(),
                "hex escape at line 1 column 56",
            ),
            (
                format!(r#"{{"id":1,"params":{deep},"method":"exec.run","params":{{"command":"a"}}}}"#),
                "recursion",
            ),
        ] {
            let fault = read(line.as_bytes()).unwrap_err().fault;
            assert!(fault.message.contains(words), "{line}: {}", fault.message);
        }
    }

    #[test]
    fn what_is_no_request_is_told_to_the_id_if_there_is_one() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep_params = format!(r#"{{"id":1,"method":"system.ping","params":{deep}}}"#);
        let deep_unknown = format!(r#"{{"id":1,"method":"system.ping","other":{deep}}}"#);
        let long_id = format!(r#"{{"id":"{}","method":"system.ping"}}"#, "x".repeat(2000));
        let cases: &[(&[u8], &str, Code, &str)] = &[
            (b"nonsense", "null", Code::ParseError, "not a JSON object"),
            (b"[1,2]", "null", Code::ParseError, "not a JSON object"),
            (b"null", "null", Code::ParseError, "not a JSON object"),
            (b"\"x\"", "null", Code::ParseError, "not a JSON object"),
            (b"{\"id\":1", "null", Code::ParseError, "not a JSON object"),
            (b"{\"id\":1,\"method\":\"system.ping\"} x", "null", Code::ParseError, "trailing"),
            (b"{\"id\":\"\xff\"}", "null", Code::ParseError, "UTF-8"),
            (deep.as_bytes(), "null", Code::ParseError, ""),
            (deep_params.as_bytes(), "null", Code::ParseError, ""),
            (deep_unknown.as_bytes(), "null", Code::ParseError, ""),
            (b"{}", "null", Code::InvalidParams, "`id`"),
            (b"{\"id\":null,\"method\":\"system.ping\"}", "null", Code::InvalidParams, "null"),
            (b"{\"id\":true,\"method\":\"system.ping\"}", "null", Code::InvalidParams, "true"),
            (b"{\"id\":[1],\"method\":\"system.ping\"}", "null", Code::InvalidParams, "[1]"),
            (long_id.as_bytes(), "null", Code::InvalidParams, "1024"),
            (br#"{"id":"\ud800","method":"system.ping"}"#, "null", Code::InvalidParams, "Unicode"),
            (b"{\"id\":1}", "1", Code::InvalidParams, "`method`"),
            (b"{\"id\":1,\"method\":7}", "1", Code::InvalidParams, "`method`"),
            (b"{\"id\":1,\"method\":\"nope\"}", "1", Code::MethodNotFound, "nope"),
            (b"{\"id\":1,\"method\":\"system.ping\",\"param\":{}}", "1", Code::InvalidParams, "`params`"),
            (b"{\"id\":1,\"method\":\"system.ping\",\"zzzzzzzz\":{}}", "1", Code::InvalidParams, "zzzzzzzz"),
            (
                b"{\"id\":\"a\",\"method\":\"system.ping\",\"params\":[]}",
                "\"a\"",
                Code::InvalidParams,
                "object",
            ),
            (b"{\"id\":1,\"method\":\"system.ping\",\"params\":\"x\"}", "1", Code::InvalidParams, "object"),
        ];
        for (line, id, code, words) in cases {
            let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
            let refusal = read(line).unwrap_err();
            assert_eq!((refusal.id.as_str(), refusal.fault.code), (*id, *code), "{shown}");
            assert!(refusal.fault.message.contains(words), "{shown}: {}", refusal.fault.message);
        }
    }
}
