//! `trl setup` and `trl doctor`: what is written for each harness, what stays, and that the programs read it.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use trl_testkit::{daemon, trl};

use super::{Stage, succeeds};

/// Each harness, its file below the home, settings that are there already, and words of the entry.
const FILES: [(&str, &str, &str, &str); 6] = [
    ("claude-code", ".claude.json", "{\n  \"numStartups\": 5\n}\n", "\"type\": \"stdio\""),
    ("codex", ".codex/config.toml", "# mine\nmodel = \"x\"\n", "[mcp_servers.trl]"),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\"mcpServers\": {\"other\": {\"command\": \"x\"}}}",
        "\"args\": [\"mcp\"]",
    ),
    ("gemini", ".gemini/settings.json", "{\n  // mine\n  \"theme\": \"dark\",\n}\n", "\"mcpServers\""),
    ("opencode", ".config/opencode/opencode.json", "{}", "\"type\": \"local\""),
    ("vscode", ".config/Code/User/mcp.json", "{\"inputs\": []}", "\"servers\""),
];

struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap()
    }

    /// Without a terminal, and so without a question.
    fn trl(&self, path: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(trl!());
        command.args(args).env_clear().env("HOME", self.0.path()).env("PATH", path);
        command.env("TRL_HOME", self.path("trl")).current_dir(self.0.path()).output().unwrap()
    }

    #[track_caller]
    fn setup(&self, args: &[&str]) -> String {
        let ran = self.trl(trl!().parent().unwrap(), &[&["setup"], args].concat());
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    fn doctor(&self, path: &Path) -> String {
        let ran = self.trl(path, &["doctor"]);
        String::from_utf8_lossy(&ran.stdout).lines().filter(|line| line.contains("harness")).collect()
    }
}

#[test]
fn each_harness_gets_its_entry_and_keeps_everything_else() {
    let here = trl!().parent().unwrap();
    for (name, file, before, entry) in FILES {
        let home = Home::new();
        home.write(file, before);
        std::fs::set_permissions(home.path(file), std::fs::Permissions::from_mode(0o640)).unwrap();
        let shown = home.setup(&[name, "--dry-run"]);
        assert!(shown.contains(entry) && shown.contains("+ "), "{name}: {shown}");
        assert_eq!(home.read(file), before, "{name}: only shown");
        assert!(home.doctor(here).contains("does not mention trl"), "{name}: {}", home.doctor(here));
        assert_eq!(home.setup(&[name]), shown, "{name}: the change is shown first");
        let after = home.read(file);
        assert!(after.contains(entry) && after.contains("trl"), "{name}: {after}");
        let kept = |text: &str| {
            before.lines().filter(|line| line.len() > 2).all(|line| text.contains(line.trim_end_matches('}')))
        };
        assert!(kept(&after), "{name}: {after}");
        let rights = std::fs::metadata(home.path(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(rights, 0o640, "{name}");
        assert!(home.doctor(here).contains(&format!("{name}: set up in")), "{}", home.doctor(here));
        let gone = home.doctor(Path::new("/nowhere"));
        assert!(gone.contains("which is not there"), "{name}: {gone}");
        assert_eq!(home.setup(&[name]), "", "{name}: nothing is left to change");
        home.setup(&[name, "--remove"]);
        assert!(
            !home.read(file).contains("\"mcp\"]") && kept(&home.read(file)),
            "{name}: {}",
            home.read(file)
        );
        assert_eq!(home.setup(&[name, "--remove"]), "", "{name}: nothing is left to remove");
    }
}

/// A project's file may be anybody's: nothing in it reaches the terminal on which a person is asked.
#[test]
fn what_is_shown_of_a_file_is_harmless_and_can_be_json() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{\"mcpServers\": {\"x\": {\"command\": \"\u{1b}[2J\"}}}\n");
    let shown = home.setup(&["cursor", "--dry-run"]);
    assert!(shown.contains("·[2J") && !shown.contains('\u{1b}'), "{shown:?}");
    for (args, changed, is_different) in [
        (&["--dry-run"][..], false, true),
        (&["-y"], true, true),
        (&["-y"], false, false),
        (&["--remove", "-y"], true, true),
    ] {
        let told = home.setup(&[&["cursor", "--json"], args].concat());
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["changed"], changed, "{args:?}: {told}");
        assert_eq!(told["difference"].is_string(), is_different, "{args:?}: {told}");
        assert!(told["file"].as_str().unwrap().ends_with(".cursor/mcp.json"), "{told}");
    }
}

#[test]
fn what_a_user_has_written_for_trl_stays_except_a_command_that_is_gone() {
    let home = Home::new();
    let entry = "{\"mcpServers\": {\"trl\": {\"command\": \"/gone/trl\", \"args\": [\"mcp\", \"--agent\", \"bob\"], \"env\": {\"A\": \"1\"}}}}";
    home.write(".cursor/mcp.json", entry);
    home.setup(&["cursor"]);
    assert_eq!(home.read(".cursor/mcp.json"), entry.replace("/gone/trl", "trl"));
    let words = "{\"mcp\": {\"trl\": {\"command\": [\"/gone/trl\",\"mcp\",\"--tools\",\"full\"]}}}";
    home.write(".config/opencode/opencode.json", words);
    home.setup(&["opencode"]);
    assert_eq!(home.read(".config/opencode/opencode.json"), words.replace("/gone/trl", "trl"));
    let over_http = "{\"mcpServers\": {\"trl\": {\"url\": \"http://127.0.0.1:7700/mcp\"}}}";
    home.write(".gemini/settings.json", over_http);
    assert_eq!(home.setup(&["gemini"]), "");
    assert_eq!(home.read(".gemini/settings.json"), over_http);
    assert!(home.doctor(Path::new("/nowhere")).contains("gemini: set up in"));
    // A link stays a link, and a file that cannot be read is left alone.
    std::fs::rename(home.path(".cursor/mcp.json"), home.path("elsewhere.json")).unwrap();
    std::os::unix::fs::symlink("../elsewhere.json", home.path(".cursor/mcp.json")).unwrap();
    home.setup(&["cursor", "--remove"]);
    assert!(home.path(".cursor/mcp.json").is_symlink() && !home.read("elsewhere.json").contains("bob"));
    home.write(".codex/config.toml", "mcp_servers = { other = { command = \"x\" } }\n");
    let refused = home.trl(trl!().parent().unwrap(), &["setup", "codex"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(home.read(".codex/config.toml"), "mcp_servers = { other = { command = \"x\" } }\n");
}

#[test]
fn with_the_plugin_claude_code_needs_no_server() {
    let home = Home::new();
    let here = trl!().parent().unwrap();
    home.write(".claude.json", "{}");
    home.setup(&["claude-code"]);
    home.write(".claude/settings.json", "{\"enabledPlugins\": {\"trl@terminal-runtime\": true}}");
    assert!(home.doctor(here).contains("has the plugin, and trl in"), "{}", home.doctor(here));
    home.setup(&["claude-code", "--remove"]);
    assert!(home.doctor(here).contains("claude-code: has the plugin"), "{}", home.doctor(here));
    assert!(home.doctor(Path::new("/nowhere")).contains("finds no trl on PATH"));
    assert_eq!(home.setup(&["claude-code"]), "");
    assert!(!home.read(".claude.json").contains("trl"), "not twice");
}

#[test]
fn the_programs_read_what_was_written() {
    let stage = Stage::new(daemon!());
    let setup = |name: &str| {
        let mut command = stage.program(name.split('-').next().unwrap());
        let mut ours = Command::new(trl!());
        ours.args(["setup", name]).env_clear();
        ours.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        succeeds(ours);
        command.args(["mcp", "get", "trl"]);
        succeeds(command)
    };
    let said = setup("claude-code");
    assert!(said.contains("Command: trl") && said.contains("Args: mcp"), "{said}");
    let said = setup("codex");
    assert!(said.contains("command: trl") && said.contains("args: mcp"), "{said}");
}
