//! Reading a request: from a method's name and params to a [`Request`](crate::Request).

use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::fault::{Code, Fault};
use crate::method::MethodInfo;

/// Reads the params of a method.
pub fn read<P: DeserializeOwned>(method: &str, params: Value) -> Result<P, Fault> {
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
    deserializer.deserialize_any(ObjectOrNull(PhantomData))
}

struct ObjectOrNull<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectOrNull<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom("an object is expected, not a list"))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: serde::Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        inner.deserialize_any(self)
    }
}

/// Turns serde's words into ours: the field, what is wrong with it, the nearest known name.
fn bad_params(method: &str, path: &str, problem: &str) -> Fault {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    if problem.starts_with("unknown field") {
        let names = quoted(problem);
        if let Some((unknown, known)) = names.split_first() {
            let is_named = path == unknown || path.ends_with(&format!(".{unknown}"));
            let field = if is_named { path.to_owned() } else { inside(path, unknown) };
            let hint = match nearest(unknown, known.iter().map(String::as_str)) {
                Some(near) => {
                    format!("; did you mean `{}{near}`?", field.strip_suffix(unknown.as_str()).unwrap_or(""))
                }
                None if known.is_empty() => "; it has none".to_owned(),
                None => format!("; known: {}", known.join(", ")),
            };
            return Fault::invalid(format!("{method} has no param `{field}`{hint}"))
                .with_details(serde_json::json!({ "field": field }));
        }
    }
    if problem.starts_with("missing field")
        && let Some(missing) = quoted(problem).first()
    {
        let field = inside(path, missing);
        return Fault::invalid(format!("{method} needs the param `{field}`"))
            .with_details(serde_json::json!({ "field": field }));
    }
    Fault::invalid(format!("param `{path}` of {method}: {problem}"))
        .with_details(serde_json::json!({ "field": path }))
}

/// The whole path of a field of the object at `path`.
fn inside(path: &str, field: &str) -> String {
    match path {
        "." => field.to_owned(),
        path => format!("{path}.{field}"),
    }
}

/// Refuses a method that is not in the registry.
pub fn unknown_method(method: &str, known: &[&MethodInfo]) -> Fault {
    let shown: String = method.chars().take(80).collect();
    let hint = nearest(method, known.iter().map(|known| known.name))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_else(|| "; `system.info` lists the methods".to_owned());
    Fault::new(Code::MethodNotFound, format!("there is no method `{shown}`{hint}"))
}

/// The known name closest to what was written, or that begins so, if there is one.
pub fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > 80 {
        return None;
    }
    let is_begun = |name: &str| written.len() > 2 && name.starts_with(written);
    known
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4 || is_begun(name))
        .min()
        .map(|(_, name)| name)
}

/// The JSON Schema of a method's params.
pub fn params_schema<P: JsonSchema>() -> Schema {
    schemars::schema_for!(P)
}

/// The JSON Schema of the `data` that a method is answered with.
pub fn reply_schema<R: JsonSchema>() -> Schema {
    crate::written_schema::<R>()
}

/// Helps the registry to infer the type of a closure's argument.
pub fn holds<P>(params: &P, condition: impl FnOnce(&P) -> bool) -> bool {
    condition(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use serde_json::json;

    #[test]
    fn a_request_is_read_into_its_own_variant() {
        let request =
            Request::parse("exec.run", json!({"session_id": "s-00000001", "command": "true"})).unwrap();
        assert!(matches!(request, Request::ExecRun(ref p) if p.command.as_deref() == Some("true")));
        assert!(matches!(Request::parse("session.list", Value::Null), Ok(Request::SessionList(_))));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("exec.run", json!({"sesion_id": "x", "command": "true"}), "did you mean `session_id`"),
            ("exec.output", json!({"exec_id": "e"}), "needs the param `stream`"),
            ("exec.run", json!({"session_id": 5, "command": "true"}), "param `session_id`"),
            ("exec.run", json!({"session_id": "x", "command": "y", "env": {"A": 1}}), "param `env.A`"),
            ("exec.run", json!([1]), "must be an object"),
            ("system.ping", json!({"x": 1}), "has no param `x`; it has none"),
            (
                "session.create",
                json!({"limits": {"mem": 1}}),
                "no param `limits.mem`; did you mean `limits.memory`?",
            ),
            ("session.create", json!({"limits": {"pids": -1}}), "param `limits.pids` of"),
            ("session.create", json!({"limits": {"memory": "x"}}), "param `limits.memory` of"),
            (
                "session.create",
                json!({"limits": [1]}),
                "param `limits` of session.create: an object is expected",
            ),
            ("session.create", json!({"limits": 5}), "param `limits` of"),
            ("session.create", json!({"isolation": {"net": "x"}}), "param `isolation.net` of"),
            (
                "session.create",
                json!({"isolation": {"rad": []}}),
                "no param `isolation.rad`; did you mean `isolation.read`",
            ),
            (
                "exec.wait",
                json!({"exec_id": "e", "until": {"port": {"port": 70000}}}),
                "param `until.port.port` of",
            ),
            (
                "exec.wait",
                json!({"exec_id": "e", "until": {"port": {}}}),
                "needs the param `until.port.port`",
            ),
            ("system.ping", json!([]), "must be an object"),
            ("exec.run", json!(["s-00000001", "true"]), "must be an object"),
            ("session.list", json!({"x": 1}), "`x`"),
            (
                "session.create",
                json!({"limits": [null, null]}),
                "param `limits` of session.create: an object",
            ),
            ("exec.wait", json!({"exec_id": "e", "until": []}), "param `until`"),
            ("exec.wait", json!({"exec_id": "e", "until": {"log": ["x"]}}), "param `until.log`"),
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
