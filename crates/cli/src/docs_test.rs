//! The documentation is complete: a method, a param, an error code or a file that it misses fails a test.

use std::path::Path;

use trl_protocol::{Code, METHODS, Method as _, MethodInfo, methods};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap()
}

#[test]
fn every_method_and_every_code_is_described() {
    let text = document("docs/protocol.md");
    for method in METHODS {
        let name = method.name;
        assert!(text.contains(&format!("### `{name}`")), "docs/protocol.md lacks {name}");
    }
    for code in Code::ALL {
        let row = format!("| `{code}` | {} |", code.exit_status());
        assert!(text.contains(&row), "docs/protocol.md lacks {row}");
    }
}

#[test]
fn every_param_and_every_event_is_described() {
    let text = document("docs/protocol.md");
    for MethodInfo { name: method, params_schema, .. } in METHODS {
        let schema = params_schema();
        let section = text.split(&format!("### `{method}`")).nth(1).unwrap_or_default();
        let section = section.split("\n### ").next().unwrap_or_default();
        // These three share their params; the first describes them.
        if [methods::ExecStream::NAME, methods::ExecStart::NAME].contains(method) {
            continue;
        }
        let params = schema.get("properties").and_then(|properties| properties.as_object()).cloned();
        for param in params.unwrap_or_default().keys() {
            assert!(section.contains(&format!("`{param}`")), "docs/protocol.md: {method} lacks {param}");
        }
    }
}

/// The lines of crates in ARCHITECTURE.md: each uses only those below it.
#[test]
fn crates_use_only_those_that_stand_below_them() {
    let text = document("ARCHITECTURE.md");
    let picture = text.split("```text\n").find(|part| part.starts_with(" cli ")).unwrap();
    let lines: Vec<&str> = picture.split("```").next().unwrap().lines().collect();
    let line_of = |name: &str| lines.iter().position(|line| line.split_whitespace().any(|word| word == name));
    for entry in std::fs::read_dir(Path::new(ROOT).join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == "testkit" {
            continue;
        }
        let manifest: toml::Table = toml::from_str(&document(&format!("crates/{name}/Cargo.toml"))).unwrap();
        let used = manifest["dependencies"].as_table().unwrap().keys();
        for used in used.filter_map(|used| used.strip_prefix("trl-")) {
            assert!(line_of(used) > line_of(&name), "ARCHITECTURE.md: {name} uses {used}");
        }
        assert!(line_of(&name).is_some(), "ARCHITECTURE.md lacks {name}");
    }
}

#[test]
fn files_that_are_named_are_there() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = document(name);
        let words = text.split(|c: char| c.is_whitespace() || "`()|,;".contains(c));
        let paths = words.map(|word| word.trim_end_matches([':', '.'])).filter(|word| {
            word.starts_with("crates/") || word.starts_with("docs/") || word.starts_with("./scripts/")
        });
        for path in paths {
            assert!(Path::new(ROOT).join(path).exists(), "{name} names {path}, which is not there");
        }
    }
}

/// `scripts/mutants --rules` changes exactly one place for each rule.
#[test]
fn every_rule_to_be_removed_is_in_its_file_once() {
    let rules: Vec<Vec<String>> = serde_json::from_str(&document("scripts/rules.json")).unwrap();
    for rule in &rules {
        let [file, text, ..] = &rule[..] else {
            panic!("a rule is a file, a text, its replacement, tests: {rule:?}")
        };
        assert_eq!(document(file).matches(text.as_str()).count(), 1, "scripts/rules.json: {file}: {text:?}");
    }
    let count = format!("`scripts/rules.json` lists {} rules", rules.len());
    assert!(document("docs/reliability.md").contains(&count), "docs/reliability.md lacks: {count}");
}

/// A promise without its test is no promise: every test file that `docs/security.md` names is there.
#[test]
fn every_promise_of_security_names_tests_that_are_there() {
    let text = document("docs/security.md");
    let promises = text.split("## What is promised").nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows: Vec<&str> =
        promises.unwrap().lines().filter(|line| line.starts_with("| ") && !line.contains("---")).collect();
    assert!(rows.len() > 20, "{rows:#?}");
    for row in rows.iter().filter(|row| !row.starts_with("| Promise")) {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let files: Vec<&str> =
            tests.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")).collect();
        assert!(!files.is_empty(), "no test shows this: {row}");
        for file in files {
            let path = if file.starts_with("crates/") {
                file.to_owned()
            } else {
                format!("crates/cli/tests/{file}")
            };
            assert!(
                Path::new(ROOT).join(&path).exists(),
                "docs/security.md names {path}, which is not there"
            );
        }
    }
}
