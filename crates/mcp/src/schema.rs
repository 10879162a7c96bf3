//! JSON Schemas of tools, from their types and as short as they can be.
//!
//! A model reads all of them before it does anything, so nothing is said that it need not
//! know: no titles, no number formats, no `null` where a thing may simply be missing.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

pub(crate) fn of_arguments<T: JsonSchema>() -> Arc<JsonObject> {
    let generator = settings().into_generator();
    Arc::new(object(generator.into_root_schema_for::<T>().to_value(), &NOISE))
}

/// Of what a tool answers: its result, or why there is none. [`without_nulls`] makes a result agree with it.
pub(crate) fn of_answer<T: JsonSchema>() -> Arc<JsonObject> {
    let generator = settings().for_serialize().into_generator();
    let mut root = generator.into_root_schema_for::<T>().to_value();
    require_only_what_is_never_null(&mut root);
    let mut schema = object(root, &NOISE_IN_ANSWERS);
    let required = schema.remove("required").unwrap_or_else(|| json!([]));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("error".to_owned(), json!({"type": "object"}));
    }
    schema.insert("anyOf".to_owned(), json!([{"required": required}, {"required": ["error"]}]));
    Arc::new(schema)
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

const NOISE: [&str; 4] = ["title", "format", "default", "minimum"];
const NOISE_IN_ANSWERS: [&str; 5] = ["title", "format", "default", "minimum", "description"];

/// A field that would be `null` is left out, as the schemas say.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(name, field)| (name, without_nulls(field)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Runs before `null` is removed from the types: afterwards nobody could tell which fields are optional.
fn require_only_what_is_never_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let optional: Vec<String> = match object.get("properties") {
                Some(Value::Object(fields)) => fields
                    .iter()
                    .filter(|(_, field)| admits_null(field))
                    .map(|(name, _)| name.clone())
                    .collect(),
                _ => Vec::new(),
            };
            if let Some(Value::Array(required)) = object.get_mut("required") {
                required.retain(|name| !optional.iter().any(|optional| name == optional.as_str()));
            }
            object.values_mut().for_each(require_only_what_is_never_null);
        }
        Value::Array(items) => items.iter_mut().for_each(require_only_what_is_never_null),
        _ => {}
    }
}

fn admits_null(schema: &Value) -> bool {
    let in_type = match &schema["type"] {
        Value::Array(types) => types.iter().any(|kind| kind == "null"),
        kind => kind == "null",
    };
    in_type || schema["anyOf"].as_array().is_some_and(|choices| choices.iter().any(admits_null))
}

fn object(mut value: Value, noise: &[&str]) -> JsonObject {
    shorten(&mut value, noise);
    let mut object = match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    };
    // The tool's own description says it better than its type's.
    object.remove("description");
    object
}

fn shorten(value: &mut Value, noise: &[&str]) {
    match value {
        Value::Object(object) => {
            for word in noise {
                // A property may have such a name; then it is no keyword.
                if object.get(*word).is_some_and(|found| !found.is_object()) {
                    object.remove(*word);
                }
            }
            if let Some(Value::Array(types)) = object.get("type")
                && let [one, null] = types.as_slice()
                && null == "null"
            {
                object.insert("type".to_owned(), one.clone());
                if let Some(Value::Array(values)) = object.get_mut("enum") {
                    values.retain(|value| !value.is_null());
                }
            }
            for (_, inner) in object.iter_mut() {
                shorten(inner, noise);
            }
            drop_null_alternative(object);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, noise)),
        _ => {}
    }
}

/// `anyOf: [X, null]` is how an optional object or enum is written.
fn drop_null_alternative(object: &mut JsonObject) {
    let Some(Value::Array(choices)) = object.get("anyOf") else { return };
    if let [one, null] = choices.as_slice()
        && null.get("type").is_some_and(|kind| kind == "null")
        && let Value::Object(one) = one.clone()
    {
        object.remove("anyOf");
        for (key, value) in one {
            object.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Serialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Example {
        /// What it is called.
        title: String,
        count: Option<u32>,
        inner: Option<Inner>,
    }

    #[derive(Serialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Inner {
        at: u64,
    }

    #[test]
    fn arguments_are_short_and_keep_their_descriptions() {
        let schema = Value::Object((*of_arguments::<Example>()).clone());
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "title": {"type": "string", "description": "What it is called."},
                    "count": {"type": "integer"},
                    "inner": {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]},
                },
                "required": ["title"],
            })
        );
    }

    #[test]
    fn what_an_answer_may_lack_is_not_required_and_left_out() {
        let example = Example { title: "x".to_owned(), count: None, inner: None };
        let schema = Value::Object((*of_answer::<Example>()).clone());
        assert_eq!(schema["anyOf"][0], json!({"required": ["title"]}));
        let inner = json!({"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]});
        assert_eq!(schema["properties"]["inner"], inner);
        let value = without_nulls(serde_json::to_value(example).unwrap());
        assert_eq!(value, json!({"title": "x"}));
    }

    #[test]
    fn an_answer_is_the_result_or_an_error() {
        let schema = Value::Object((*of_answer::<Inner>()).clone());
        assert_eq!(schema["anyOf"], json!([{"required": ["at"]}, {"required": ["error"]}]));
        assert_eq!(schema["properties"]["error"], json!({"type": "object"}));
    }
}
