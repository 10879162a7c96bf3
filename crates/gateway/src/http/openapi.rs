//! `GET /openapi.json`: what HTTP answers, made from the types of the protocol.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use trl_protocol::{Code, Fault, METHODS, MethodInfo, PROTOCOL_VERSION};

use super::answer;

pub(crate) async fn tell() -> Response {
    answer::of(StatusCode::OK, "application/json", document().to_string())
}

/// Statuses that no code has, or that come before any code is read.
const MORE_STATUSES: [u16; 3] = [403, 405, 408];

fn document() -> Value {
    let mut schemas = Schemas::default();
    let requests = requests(&mut schemas);
    let replies: Vec<Value> = METHODS
        .iter()
        .map(|method| schemas.add(&format!("{}.reply", method.name), (method.reply_schema)().to_value()))
        .collect();
    let fault = schemas.add("error", Fault::schema().to_value());
    let id = json!({"type": ["string", "number", "null"]});
    schemas.all.insert(
        "response".to_owned(),
        json!({
            "type": "object",
            "required": ["id", "ok", "data"],
            "properties": {"id": id, "ok": {"const": true}, "data": {"anyOf": replies}},
        }),
    );
    schemas.all.insert(
        "refusal".to_owned(),
        json!({
            "type": "object",
            "required": ["id", "ok", "error"],
            "properties": {"id": id, "ok": {"const": false}, "error": fault},
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Terminal Runtime",
            "version": PROTOCOL_VERSION.to_string(),
            "description": "Living shells for agents, and mail between them. One request object in, one response object out.",
        },
        "security": [{"token": []}],
        "paths": paths(&requests),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas.all,
        },
    })
}

/// One schema for each method's request; returns the choice between them.
fn requests(schemas: &mut Schemas) -> Value {
    let mut mapping = Map::new();
    let mut choices = Vec::new();
    for MethodInfo { name: method, about, params_schema, .. } in METHODS {
        let params = params_schema().to_value();
        let needs_params = params.get("required").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
        let params = schemas.add(&format!("{method}.params"), params);
        let params = if needs_params { params } else { json!({"anyOf": [params, {"type": "null"}]}) };
        let mut required = vec!["id", "method"];
        required.extend(needs_params.then_some("params"));
        let request = json!({
            "type": "object",
            "description": about.trim(),
            "required": required,
            "properties": {
                "id": {"type": ["string", "number"]},
                "method": {"type": "string", "const": method},
                "params": params,
            },
            "additionalProperties": false,
        });
        let name = format!("{method}.request");
        mapping.insert((*method).to_owned(), json!(reference(&name)));
        choices.push(json!({"$ref": reference(&name)}));
        schemas.all.insert(name, request);
    }
    json!({"oneOf": choices, "discriminator": {"propertyName": "method", "mapping": mapping}})
}

fn paths(requests: &Value) -> Value {
    let refused = |what: &str| json!({"description": what, "content": {"application/json": {"schema": {"$ref": reference("refusal")}}}});
    let streams: Vec<&str> =
        METHODS.iter().filter(|method| !method.rules.events.is_empty()).map(|method| method.name).collect();
    let mut answers = Map::new();
    answers.insert(
        "200".to_owned(),
        json!({
            "description": "The response. With `Accept: text/event-stream` a streaming request is answered with its \
                            events, then the response as the last of them.",
            "content": {
                "application/json": {"schema": {"$ref": reference("response")}},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        }),
    );
    let mut codes: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    for code in Code::ALL {
        codes.entry(code.http_status()).or_default().insert(code.as_str());
    }
    for status in MORE_STATUSES {
        codes.entry(status).or_default().insert("refused");
    }
    for (status, codes) in codes {
        let what = codes.into_iter().collect::<Vec<_>>().join(", ");
        answers.insert(status.to_string(), refused(&what));
    }
    let rpc = |name: &str| {
        json!({"post": {
            "operationId": name,
            "summary": "One request, one response",
            "description": format!("Streaming: {}.", streams.join(", ")),
            "requestBody": {"required": true, "content": {"application/json": {"schema": requests}}},
            "responses": answers,
        }})
    };
    let told = |name: &str, what: &str, kind: &str, schema: Value| {
        json!({"get": {
            "operationId": name,
            "summary": what,
            "responses": {
                "200": {"description": what, "content": {kind: {"schema": schema}}},
                "401": refused("no token, or a wrong one"),
                "403": refused("not from here"),
            },
        }})
    };
    let mut health = told("health", "The daemon is there", "application/json", json!({"type": "object"}));
    health["get"]["security"] = json!([]);
    json!({
        "/": rpc("call"),
        "/v1/rpc": rpc("rpc"),
        "/healthz": health,
        "/metrics": told("metrics", "Figures for Prometheus", "text/plain", json!({"type": "string"})),
        "/openapi.json": told("openapi", "This document", "application/json", json!({"type": "object"})),
        "/v1/ws": {"get": {
            "operationId": "socket",
            "summary": "The line protocol over a WebSocket",
            "responses": {
                "101": {"description": "Each message is one line of the protocol"},
                "401": refused("no token, or a wrong one"),
                "403": refused("not from here"),
                "426": refused("no WebSocket handshake"),
            },
        }},
    })
}

fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// All schemas under one roof. Definitions of the same name and content are one.
#[derive(Default)]
struct Schemas {
    all: Map<String, Value>,
    definitions: BTreeMap<String, Value>,
}

impl Schemas {
    /// Puts a schema and its definitions in, and returns a reference to it.
    fn add(&mut self, name: &str, mut schema: Value) -> Value {
        let definitions = match schema.as_object_mut() {
            Some(object) => {
                object.remove("$schema");
                object.remove("$defs")
            }
            None => None,
        };
        let definitions: Map<String, Value> =
            definitions.and_then(|it| it.as_object().cloned()).unwrap_or_default();
        let mut names = BTreeMap::new();
        for (own, definition) in &definitions {
            let known = self.definitions.get(own).is_none_or(|there| there == definition);
            let shared = if known { own.clone() } else { format!("{name}.{own}") };
            self.definitions.insert(shared.clone(), definition.clone());
            names.insert(format!("#/$defs/{own}"), shared);
        }
        for (own, mut definition) in definitions {
            rename(&mut definition, &names);
            if let Some(shared) = names.get(&format!("#/$defs/{own}")) {
                self.all.insert(shared.clone(), definition);
            }
        }
        rename(&mut schema, &names);
        self.all.insert(name.to_owned(), schema);
        json!({"$ref": reference(name)})
    }
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get_mut("$ref")
                && let Some(shared) = names.get(target)
            {
                *target = reference(shared);
            }
            object.values_mut().for_each(|value| rename(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_method_is_there() {
        let document = document();
        let text = document.to_string();
        assert!(!text.contains("$defs"), "definitions are under components");
        for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap_or_default();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
        let choices = document["paths"]["/v1/rpc"]["post"]["requestBody"]["content"]["application/json"]["schema"]
            ["discriminator"]["mapping"]
            .as_object()
            .map_or(0, Map::len);
        assert_eq!(choices, METHODS.len());
    }
}
