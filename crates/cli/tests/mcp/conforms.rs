//! Whether a structured result is what the tool's output schema says.
//!
//! Knows the keywords that our schemas use, and fails on any other: a rule that is not
//! understood must not pass for one that is kept.

use serde_json::Value;

/// Why `value` does not conform; `None` if it does.
pub fn violation(schema: &Value, value: &Value) -> Option<String> {
    let rules = match schema {
        Value::Bool(true) => return None,
        Value::Object(rules) => rules,
        other => return Some(format!("no schema: {other}")),
    };
    rules.iter().find_map(|(rule, wanted)| broken(rule, wanted, rules, value))
}

fn broken(
    rule: &str,
    wanted: &Value,
    rules: &serde_json::Map<String, Value>,
    value: &Value,
) -> Option<String> {
    match rule {
        "type" => (!is_of(wanted, value)).then(|| format!("{value} is not of type {wanted}")),
        "required" => wanted.as_array()?.iter().find_map(|name| {
            let missing = value.get(name.as_str()?).is_none();
            missing.then(|| format!("{name} is missing in {value}"))
        }),
        "properties" => wanted.as_object()?.iter().find_map(|(name, schema)| {
            let field = value.get(name)?;
            violation(schema, field).map(|why| format!("{name}: {why}"))
        }),
        "additionalProperties" => value.as_object()?.iter().find_map(|(name, field)| {
            let known = rules.get("properties").is_some_and(|known| known.get(name).is_some());
            match wanted {
                _ if known => None,
                Value::Bool(false) => Some(format!("{name} is not expected")),
                schema => violation(schema, field),
            }
        }),
        "items" => value.as_array()?.iter().find_map(|item| violation(wanted, item)),
        "enum" => (!wanted.as_array()?.contains(value)).then(|| format!("{value} is none of {wanted}")),
        "const" => (wanted != value).then(|| format!("{value} is not {wanted}")),
        "anyOf" | "oneOf" => {
            let broken: Vec<String> =
                wanted.as_array()?.iter().map_while(|schema| violation(schema, value)).collect();
            (broken.len() == wanted.as_array()?.len()).then(|| broken.join("; "))
        }
        "maximum" => (value.as_f64() > wanted.as_f64()).then(|| format!("{value} is above {wanted}")),
        // Permissions of files; the only pattern that our schemas have.
        "pattern" if wanted == "^(0o)?[0-7]{1,5}$" => {
            let mode = value.as_str().unwrap_or_default();
            let digits = mode.strip_prefix("0o").unwrap_or(mode);
            let is_mode =
                (1..=5).contains(&digits.len()) && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
            (!is_mode).then(|| format!("{value} does not match {wanted}"))
        }
        "description" => None,
        other => Some(format!("the keyword {other} is not known to this check")),
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some(_) => false,
        None => kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| is_of(kind, value))),
    }
}

#[test]
fn the_check_itself_finds_what_does_not_conform() {
    use serde_json::json;
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "list": {"type": "array", "items": {"enum": ["x"]}}},
        "anyOf": [{"required": ["a"]}, {"required": ["error"]}],
    });
    for (value, conforms) in [
        (json!({"a": "b"}), true),
        (json!({"error": {}}), true),
        (json!({"a": "b", "list": ["x"]}), true),
        (json!({}), false),
        (json!({"a": null}), false),
        (json!({"a": "b", "list": ["y"]}), false),
        (json!([]), false),
    ] {
        assert_eq!(violation(&schema, &value).is_none(), conforms, "{value}");
    }
    assert!(violation(&json!({"pattern": "x"}), &json!("x")).is_some(), "unknown rules are not passed over");
}
