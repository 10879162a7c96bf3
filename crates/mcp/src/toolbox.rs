//! Every tool there is, in one table; what a client is offered is chosen from it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use trl_protocol::request::nearest;
use trl_protocol::{Code, Fault};

use crate::guest::Guest;
use crate::profile::Profile;
use crate::progress::Teller;
use crate::schema;
use crate::tools;

/// One call of a tool.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) guest: Arc<Guest>,
    pub(crate) ct: CancellationToken,
    pub(crate) teller: Teller,
    /// The client wants fields beside the text.
    pub(crate) structured: bool,
}

/// What a tool is like, for clients that ask before they let a model use it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hints {
    /// Changes nothing.
    ReadOnly,
    /// Changes something, destroys nothing.
    Adds { idempotent: bool },
    /// May destroy something.
    Destroys { idempotent: bool },
}

/// A tool: what it takes, what it answers, what it does.
pub(crate) trait Spec {
    const NAME: &'static str;
    /// For a model that has never heard of us.
    const ABOUT: &'static str;
    const HINTS: Hints;
    /// Whether it reaches beyond this machine's sessions: what it runs, or whom it writes to, is anyone's guess.
    const OPEN_WORLD: bool;
    type Args: DeserializeOwned + JsonSchema + Send;
    type Answer: Serialize + JsonSchema;

    fn call(
        args: Self::Args,
        call: Call,
    ) -> impl Future<Output = Result<(String, Self::Answer), Fault>> + Send;
}

type Called = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

pub(crate) struct Entry {
    pub(crate) tool: Tool,
    answers: Arc<JsonObject>,
    pub(crate) call: fn(JsonObject, Call) -> Called,
}

impl Entry {
    pub(crate) fn of<S: Spec + 'static>() -> Entry {
        let tool = Tool::new(S::NAME, S::ABOUT, schema::of_arguments::<S::Args>())
            .with_annotations(annotations(S::HINTS, S::OPEN_WORLD));
        Entry {
            tool,
            answers: schema::of_answer::<S::Answer>(),
            call: |args, call| Box::pin(answer::<S>(args, call)),
        }
    }
}

fn annotations(hints: Hints, open_world: bool) -> ToolAnnotations {
    let annotations = match hints {
        Hints::ReadOnly => ToolAnnotations::new().read_only(true),
        Hints::Adds { idempotent } => {
            ToolAnnotations::new().read_only(false).destructive(false).idempotent(idempotent)
        }
        Hints::Destroys { idempotent } => {
            ToolAnnotations::new().read_only(false).destructive(true).idempotent(idempotent)
        }
    };
    annotations.open_world(open_world)
}

async fn answer<S: Spec>(args: JsonObject, call: Call) -> CallToolResult {
    let structured = call.structured;
    let answered = match serde_path_to_error::deserialize::<_, S::Args>(Value::Object(args)) {
        Ok(args) => S::call(args, call).await,
        Err(error) => Err(misread(S::NAME, &error)),
    };
    match answered {
        Ok((text, answer)) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            if structured {
                result.structured_content = serde_json::to_value(answer).ok().map(schema::without_nulls);
            }
            result
        }
        Err(fault) => refused(&fault, structured),
    }
}

fn misread(tool: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Fault {
    let path = error.path().to_string();
    let at = if path == "." { String::new() } else { format!(" (`{path}`)") };
    Fault::invalid(format!("arguments of {tool}{at}: {}", error.inner()))
}

/// A fault as a result: the model reads it and can do something about it.
pub(crate) fn refused(fault: &Fault, structured: bool) -> CallToolResult {
    let mut result =
        CallToolResult::error(vec![ContentBlock::text(format!("{}: {}", fault.code, fault.message))]);
    if structured {
        result.structured_content = Some(schema::without_nulls(json!({ "error": fault })));
    }
    result
}

pub(crate) fn no_such_tool(name: &str, profile: &Profile) -> Fault {
    let hint = match nearest(name, offered(profile).map(|entry| &*entry.tool.name)) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    let shown: String = name.chars().take(80).collect();
    Fault::new(Code::MethodNotFound, format!("there is no tool `{shown}`{hint}"))
}

static ALL: LazyLock<Vec<Entry>> = LazyLock::new(tools::all);

/// The tools of a profile, in the order of the table.
pub(crate) fn offered(profile: &Profile) -> impl Iterator<Item = &'static Entry> {
    ALL.iter().filter(move |entry| profile.has(&entry.tool.name))
}

/// The tool of this name, in whatever set it is.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.tool.name == name)
}

/// The tools of a profile as clients see them; `structured` adds what their results look like as fields.
pub fn definitions(profile: &Profile, structured: bool) -> Vec<Tool> {
    let defined = |entry: &'static Entry| match structured {
        true => entry.tool.clone().with_raw_output_schema(Arc::clone(&entry.answers)),
        false => entry.tool.clone(),
    };
    offered(profile).map(defined).collect()
}

/// What a client may ask for by name.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|entry| &*entry.tool.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_few_tokens() {
        let default: Vec<&Tool> =
            ALL.iter().map(|entry| &entry.tool).filter(|tool| Profile::Default.has(&tool.name)).collect();
        assert_eq!(default.len(), 10);
        let count = bpe_openai::o200k_base().count(&serde_json::to_string(&default).unwrap());
        assert!(count <= 2200, "{count} tokens");
    }

    #[test]
    fn the_skill_of_the_plugin_is_few_tokens() {
        let skill = include_str!("../../../plugin/claude-code/skills/persistent-shell/SKILL.md");
        let count = bpe_openai::o200k_base().count(skill);
        assert!(count <= 400, "{count} tokens");
    }
}
