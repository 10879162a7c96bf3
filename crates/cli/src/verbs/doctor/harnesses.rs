//! Which agents' programs are set up to use trl, and whether what they would start is there.

use std::path::Path;

use super::Check;
use crate::verbs::setup::{Configured, Harness, is_plugin_enabled};

const NAME: &str = "harness";

pub(super) fn check() -> Vec<Check> {
    Harness::ALL.into_iter().filter_map(one).collect()
}

/// Nothing about a program that is not there.
fn one(harness: Harness) -> Option<Check> {
    let file = harness.file(false)?;
    let text = std::fs::read_to_string(&file).ok()?;
    let (name, shown) = (harness.name(), file.display());
    let is_plugin = harness == Harness::ClaudeCode && is_plugin_enabled();
    let command = match (harness.configured(&text), is_plugin) {
        (Some(_), true) => {
            return Some(Check::warn(
                NAME,
                format!("{name}: has the plugin, and trl in {shown} too"),
                "its model is offered every tool twice",
                format!("`trl setup {name} --remove` leaves the plugin"),
            ));
        }
        (None, true) if starts("trl") => return Some(Check::ok(NAME, format!("{name}: has the plugin"))),
        (None, true) => {
            return Some(Check::warn(
                NAME,
                format!("{name}: has the plugin, which finds no trl on PATH"),
                "the plugin does nothing",
                "put the directory of trl on PATH",
            ));
        }
        (None, false) => {
            return Some(Check::ok(
                NAME,
                format!("{name}: {shown} does not mention trl; `trl setup {name}` adds it"),
            ));
        }
        (Some(Configured::Otherwise), false) => {
            return Some(Check::ok(NAME, format!("{name}: set up in {shown}, without a command")));
        }
        (Some(Configured::Command(command)), false) => command,
    };
    if starts(&command) {
        return Some(Check::ok(NAME, format!("{name}: set up in {shown}")));
    }
    Some(Check::warn(
        NAME,
        format!("{name}: {shown} starts {command:?}, which is not there"),
        "the program cannot start trl",
        format!("`trl setup {name}` writes the right command"),
    ))
}

fn starts(command: &str) -> bool {
    if command.contains('/') {
        return Path::new(command).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    !command.is_empty() && std::env::split_paths(&path).any(|dir| dir.join(command).is_file())
}
