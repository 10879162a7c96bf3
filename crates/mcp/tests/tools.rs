//! What a model must read before it does anything: how much it is, and that it is true.

#![expect(clippy::expect_used, reason = "what the tests share is test code too")]

use trl_mcp::{Profile, definitions};

fn profile(name: &str) -> Profile {
    name.parse().expect("a profile")
}

fn tokens(profile: &Profile) -> usize {
    let listed = serde_json::to_string(&definitions(profile, false)).expect("JSON");
    bpe_openai::o200k_base().count(&listed)
}

#[test]
fn the_default_is_few_tools_and_few_tokens() {
    let tools = definitions(&Profile::Default, false);
    assert!(tools.iter().all(|tool| tool.output_schema.is_none()));
    assert!(tools.len() <= 10, "{} tools", tools.len());
    let count = tokens(&Profile::Default);
    assert!(count <= 2200, "{count} tokens");
    for smaller in ["minimal", "terminal", "mail", "files"] {
        assert!(tokens(&profile(smaller)) <= 2200, "{smaller}");
    }
    assert!(tokens(&profile("minimal")) < count && count < tokens(&profile("full")));
}

/// Counted with the tokenizer of OpenAI's newer models; that of Claude is not public and differs by some percent.
#[test]
fn the_skill_of_the_plugin_is_short() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin/claude-code/skills/persistent-shell/SKILL.md");
    let count = bpe_openai::o200k_base().count(&std::fs::read_to_string(path).expect("the skill"));
    assert!(count <= 350, "{count} tokens, and at most 400 are promised");
}

#[test]
fn every_tool_says_what_it_is() {
    for tool in definitions(&Profile::Full, true) {
        let name = &tool.name;
        assert!(tool.description.as_ref().is_some_and(|text| text.len() > 20), "{name}");
        assert_eq!(tool.input_schema["type"], "object", "{name}");
        let output = tool.output_schema.as_ref().expect("an output schema");
        assert_eq!(output["type"], "object", "{name}");
        assert!(!output["properties"]["error"].is_null(), "{name}");
        let hints = tool.annotations.as_ref().expect("annotations");
        let read_only = hints.read_only_hint.expect("whether it is read-only");
        assert!(hints.open_world_hint.is_some(), "{name}");
        assert_eq!(hints.destructive_hint.is_none(), read_only, "{name}");
    }
}

#[test]
fn annotations_are_what_the_tools_do() {
    let hints = |name: &str| {
        let mut tools = definitions(&Profile::Full, false);
        tools.extend(definitions(&profile("files"), false));
        let tool = tools.into_iter().find(|tool| tool.name == name).expect("the tool");
        let hints = tool.annotations.expect("annotations");
        (hints.read_only_hint == Some(true), hints.destructive_hint == Some(true), hints.idempotent_hint)
    };
    for (name, expected) in [
        ("run", (false, true, Some(false))),
        ("output", (true, false, None)),
        ("list_sessions", (true, false, None)),
        ("cancel", (false, true, Some(true))),
        ("end_session", (false, true, Some(true))),
        ("send", (false, false, Some(false))),
        ("check_reply", (true, false, None)),
        ("whoami", (true, false, None)),
        ("write_file", (false, true, Some(false))),
    ] {
        assert_eq!(hints(name), expected, "{name}");
    }
}

#[test]
fn the_arguments_say_what_is_taken() {
    let tools = definitions(&Profile::Full, false);
    let properties = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).expect("the tool");
        tool.input_schema["properties"].clone()
    };
    assert_eq!(properties("output")["stream"]["enum"], serde_json::json!(["stdout", "stderr"]));
    for side in ["rows", "cols"] {
        assert_eq!(properties("run")[side]["maximum"], 1000, "{side}");
    }
}
