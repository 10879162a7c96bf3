//! `trl setup`: writes `trl mcp` into the configuration of a harness, and takes it out again.
//!
//! The change is shown before it is made. Everything else in the file stays as it is written.

mod json_edit;
mod toml_edit;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use trl_protocol::quote::inline;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use json_edit::Unreadable;

/// Add trl to the configuration of an agent program, or remove it
///
/// Shows the change, then makes it; at a terminal it asks first. Other settings stay as they are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to set up
    #[arg(value_enum)]
    harness: Harness,
    /// Remove trl from the configuration
    #[arg(long)]
    remove: bool,
    /// Only show the change
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// For the project in this directory instead of everywhere
    #[arg(long)]
    project: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Harness {
    ClaudeCode,
    Codex,
    Cursor,
    Gemini,
    Opencode,
    Vscode,
}

/// How a harness writes down its servers.
#[derive(Debug, Clone, Copy)]
enum Form {
    Json { servers: &'static str, entry: fn(&str) -> String },
    Toml { table: &'static str },
}

impl Harness {
    pub(crate) const ALL: [Harness; 6] = [
        Harness::ClaudeCode,
        Harness::Codex,
        Harness::Cursor,
        Harness::Gemini,
        Harness::Opencode,
        Harness::Vscode,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Harness::ClaudeCode => "claude-code",
            Harness::Codex => "codex",
            Harness::Cursor => "cursor",
            Harness::Gemini => "gemini",
            Harness::Opencode => "opencode",
            Harness::Vscode => "vscode",
        }
    }

    fn form(self) -> Form {
        let plain = |command: &str| {
            format!("{{\n  \"command\": {},\n  \"args\": [\"mcp\"]\n}}", serde_json::json!(command))
        };
        let typed = |command: &str| {
            format!(
                "{{\n  \"type\": \"stdio\",\n  \"command\": {},\n  \"args\": [\"mcp\"]\n}}",
                serde_json::json!(command)
            )
        };
        let local = |command: &str| {
            format!(
                "{{\n  \"type\": \"local\",\n  \"command\": [{}, \"mcp\"],\n  \"enabled\": true\n}}",
                serde_json::json!(command)
            )
        };
        match self {
            Harness::ClaudeCode => Form::Json { servers: "mcpServers", entry: typed },
            Harness::Codex => Form::Toml { table: "mcp_servers.trl" },
            Harness::Cursor | Harness::Gemini => Form::Json { servers: "mcpServers", entry: plain },
            Harness::Opencode => Form::Json { servers: "mcp", entry: local },
            Harness::Vscode => Form::Json { servers: "servers", entry: typed },
        }
    }

    /// The file that it reads everywhere, or in the project of this directory.
    pub(crate) fn file(self, project: bool) -> Option<PathBuf> {
        if project {
            let here = std::env::current_dir().ok()?;
            return Some(here.join(match self {
                Harness::ClaudeCode => ".mcp.json",
                Harness::Codex => ".codex/config.toml",
                Harness::Cursor => ".cursor/mcp.json",
                Harness::Gemini => ".gemini/settings.json",
                Harness::Opencode => "opencode.json",
                Harness::Vscode => ".vscode/mcp.json",
            }));
        }
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || var("HOME");
        let config = || var("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")));
        Some(match self {
            Harness::ClaudeCode => var("CLAUDE_CONFIG_DIR").or_else(home)?.join(".claude.json"),
            Harness::Codex => var("CODEX_HOME").or_else(|| Some(home()?.join(".codex")))?.join("config.toml"),
            Harness::Cursor => home()?.join(".cursor/mcp.json"),
            Harness::Gemini => home()?.join(".gemini/settings.json"),
            Harness::Opencode => config()?.join("opencode/opencode.json"),
            Harness::Vscode => config()?.join("Code/User/mcp.json"),
        })
    }

    /// What is configured for trl; `None` if nothing is.
    pub(crate) fn configured(self, text: &str) -> Option<Configured> {
        match self.form() {
            Form::Json { servers, .. } => {
                let entry = json_edit::strict(json_edit::get(text, servers, "trl")?);
                let entry: serde_json::Value = serde_json::from_str(&entry).ok()?;
                let command = entry["command"].as_str().or_else(|| entry["command"][0].as_str());
                Some(Configured::new(command))
            }
            Form::Toml { table } => {
                let command = toml_edit::get(text, table, "command");
                let command = command.as_ref().and_then(toml::Value::as_str);
                toml_edit::has(text, table).then(|| Configured::new(command))
            }
        }
    }

    fn with(self, text: &str, command: &str) -> std::result::Result<Option<String>, Unreadable> {
        let configured = self.configured(text);
        Ok(match (self.form(), configured) {
            (_, Some(Configured::Otherwise)) => None,
            (_, Some(Configured::Command(there))) if there == command => None,
            // Its arguments and environment are the user's.
            (Form::Json { servers, .. }, Some(Configured::Command(_))) => {
                let path = [servers, "trl", "command"];
                let old = json_edit::get(text, servers, "trl").map(json_edit::strict).unwrap_or_default();
                let mut entry: serde_json::Value = serde_json::from_str(&old).unwrap_or_default();
                let value = match entry["command"].as_array_mut().and_then(|words| words.first_mut()) {
                    Some(first) => {
                        *first = command.into();
                        entry["command"].to_string()
                    }
                    None => serde_json::json!(command).to_string(),
                };
                json_edit::replace(text, &path, &value)
            }
            (Form::Json { servers, entry }, None) => {
                Some(json_edit::set(text, servers, "trl", &entry(command))?)
            }
            (Form::Toml { table }, Some(Configured::Command(_))) => {
                Some(toml_edit::set_key(text, table, "command", command)?)
            }
            (Form::Toml { table }, None) => {
                let body = format!("command = {command:?}\nargs = [\"mcp\"]\n");
                Some(toml_edit::add(text, table, &body)?)
            }
        })
    }

    fn without(self, text: &str) -> std::result::Result<Option<String>, Unreadable> {
        match self.form() {
            Form::Json { servers, .. } => json_edit::remove(text, servers, "trl"),
            Form::Toml { table } => toml_edit::remove(text, table),
        }
    }
}

/// What a harness has for trl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Configured {
    /// It starts this program.
    Command(String),
    /// Such as the address of a daemon that serves MCP over HTTP.
    Otherwise,
}

impl Configured {
    fn new(command: Option<&str>) -> Configured {
        command.map_or(Configured::Otherwise, |command| Configured::Command(command.to_owned()))
    }
}

/// Whether Claude Code has trl as a plugin, whatever its marketplace is called.
pub(crate) fn is_plugin_enabled() -> bool {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = var("CLAUDE_CONFIG_DIR").or_else(|| Some(var("HOME")?.join(".claude")));
    let text =
        dir.and_then(|dir| std::fs::read_to_string(dir.join("settings.json")).ok()).unwrap_or_default();
    let settings: serde_json::Value = serde_json::from_str(&json_edit::strict(&text)).unwrap_or_default();
    let enabled = settings["enabledPlugins"].as_object();
    enabled.is_some_and(|plugins| plugins.iter().any(|(name, on)| name.starts_with("trl@") && on == true))
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<u8> {
    let name = args.harness.name();
    let file = args.harness.file(args.project).ok_or_else(|| Failure::usage("HOME is not set"))?;
    let before = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::system(&format!("reading {}", file.display()), error)),
    };
    let done = |changed: bool, difference: Option<&str>| match context.output.json {
        true => {
            let file = file.display().to_string();
            context
                .output
                .json(&json!({"harness": name, "file": file, "changed": changed, "difference": difference}))
        }
        false => Ok(()),
    };
    if args.harness == Harness::ClaudeCode && !args.remove && is_plugin_enabled() {
        output::note("claude-code: the plugin of trl is enabled, and has the server; nothing to change");
        return done(false, None).map(|()| 0);
    }
    let changed = match args.remove {
        true => args.harness.without(&before),
        false => args.harness.with(&before, &our_command()?),
    };
    let changed = changed.map_err(|Unreadable(why)| {
        Failure::usage(format!("{} is left alone: {why}", file.display()))
            .hint("repair it, or add trl by hand as docs/agents.md shows")
    })?;
    let Some(after) = changed.filter(|after| *after != before) else {
        let state = if args.remove { "has no trl" } else { "has trl already" };
        output::note(&format!("{name}: {} {state}; nothing to change", file.display()));
        return done(false, None).map(|()| 0);
    };
    let difference = difference(&file, &before, &after);
    if !context.output.json {
        context.output.text(&difference)?;
    }
    if args.dry_run || !(args.yes || agreed()?) {
        output::note("nothing was changed");
        return done(false, Some(&difference)).map(|()| 0);
    }
    write(&file, &after)?;
    output::note(&format!("{name}: {} was written", file.display()));
    done(true, Some(&difference)).map(|()| 0)
}

/// As short as a harness finds it: by name if that is us.
fn our_command() -> Result<String> {
    let us =
        std::env::current_exe().map_err(|error| Failure::system("finding this program's file", error))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("trl")).find(|file| file.is_file());
    let same = found.is_some_and(|found| found.canonicalize().ok() == us.canonicalize().ok());
    if same {
        return Ok("trl".to_owned());
    }
    us.into_os_string().into_string().map_err(|_| Failure::usage("the path of this program is not UTF-8"))
}

/// Only what differs: the files are short, and their beginnings and ends are the same.
fn difference(file: &Path, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - same_head;
    let same_tail = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (removed, added) = (&old[same_head..old.len() - same_tail], &new[same_head..new.len() - same_tail]);
    let marked = removed.iter().map(|line| ("-", line)).chain(added.iter().map(|line| ("+", line)));
    // A project's file may be anybody's.
    let marked = marked.map(|(mark, line)| format!("{mark} {}\n", inline(line)));
    std::iter::once(format!("{}\n", inline(&file.display().to_string()))).chain(marked).collect()
}

/// A person at a terminal is asked; a script has said what it wants.
fn agreed() -> Result<bool> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Ok(true);
    }
    output::to_terminal(b"make this change? [y/N] ");
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::system("reading the answer", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// As a whole, with the rights that the file had; a link stays a link.
fn write(file: &Path, text: &str) -> Result<()> {
    let failed = |error| Failure::system(&format!("writing {}", file.display()), error);
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let dir = target.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(dir).map_err(failed)?;
    let fresh = dir.join(format!(".trl-setup-{}", std::process::id()));
    let written = replace(&fresh, &target, text);
    if written.is_err() {
        // Half a file is of no use to anyone.
        let _gone = std::fs::remove_file(&fresh);
    }
    written.map_err(failed)
}

fn replace(fresh: &Path, target: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let rights = std::fs::metadata(target).ok().map(|meta| meta.permissions());
    let mut options = std::fs::OpenOptions::new();
    // Harnesses keep keys beside their settings.
    let mut out = options.write(true).create_new(true).mode(0o600).open(fresh)?;
    out.write_all(text.as_bytes())?;
    if let Some(rights) = rights {
        out.set_permissions(rights)?;
    }
    std::fs::rename(fresh, target)
}
