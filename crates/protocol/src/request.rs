//! Reading a request: from a method's name and params to a [`Request`](crate::Request).

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
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

/// Refuses a method that is not in the registry.
pub fn unknown_method(method: &str, known: &[&MethodInfo]) -> Fault {
    let shown: String = method.chars().take(80).collect();
    let hint = nearest(method, known.iter().map(|known| known.name))
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_else(|| "; `system.info` lists the methods".to_owned());
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
