//! One table of a TOML file, set or removed, with everything else left as it is written.
//!
//! Works by lines, so it does not know every way to write TOML. What comes out is therefore compared with what should:
//! a file that is written in another way is left alone.

use toml::{Table, Value};

use super::json_edit::Unreadable;

/// Adds the table `[NAME]`.
pub(super) fn add(text: &str, name: &str, body: &str) -> Result<String, Unreadable> {
    let table = format!("[{name}]\n{body}");
    let after = match text.trim_end() {
        "" => table,
        before => format!("{before}\n\n{table}"),
    };
    let wanted: Table = body.parse().map_err(|_| NOT_TOML)?;
    checked(text, after, |root| {
        below(root, name, true)?.extend(wanted);
        Some(())
    })
}

/// Sets one key of the table `[NAME]`, which is there; its other keys stay.
pub(super) fn set_key(text: &str, name: &str, key: &str, value: &str) -> Result<String, Unreadable> {
    let (from, _) = span(text, name).ok_or(OTHERWISE)?;
    let is_key = |line: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let (mut after, mut done) = (String::new(), false);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !done && at > from && is_key(line) {
            after.push_str(&format!("{key} = {value:?}\n"));
            done = true;
        } else {
            after.push_str(line);
        }
        at += line.len();
    }
    checked(text, after, |root| {
        below(root, name, false)?.insert(key.to_owned(), Value::String(value.to_owned()));
        Some(())
    })
}

/// Removes the table `[NAME]` and those below it; `None` if it is not there.
pub(super) fn remove(text: &str, name: &str) -> Result<Option<String>, Unreadable> {
    let mut root: Table = text.parse().map_err(|_| NOT_TOML)?;
    if below(&mut root, name, false).is_none() {
        return Ok(None);
    }
    let (from, to) = span(text, name).ok_or(OTHERWISE)?;
    let (before, after) = (text[..from].trim_end(), &text[to..]);
    let without = match (before, after) {
        ("", after) => after.to_owned(),
        (before, "") => format!("{before}\n"),
        (before, after) => format!("{before}\n\n{after}"),
    };
    let (outer, inner) = name.rsplit_once('.').ok_or(OTHERWISE)?;
    let change = |root: &mut Table| below(root, outer, false)?.remove(inner).map(drop);
    checked(text, without, change).map(Some)
}

/// One key of the table, however it is written.
pub(super) fn get(text: &str, name: &str, key: &str) -> Option<Value> {
    let mut root: Table = text.parse().ok()?;
    below(&mut root, name, false)?.get(key).cloned()
}

pub(super) fn has(text: &str, name: &str) -> bool {
    text.parse::<Table>().is_ok_and(|mut root| below(&mut root, name, false).is_some())
}

const NOT_TOML: Unreadable = Unreadable("it is not TOML");
const OTHERWISE: Unreadable = Unreadable("its servers are written in a form that is not edited");

fn below<'t>(root: &'t mut Table, name: &str, make: bool) -> Option<&'t mut Table> {
    name.split('.').try_fold(root, |table, part| {
        if make && !table.contains_key(part) {
            table.insert(part.to_owned(), Value::Table(Table::new()));
        }
        table.get_mut(part)?.as_table_mut()
    })
}

/// The new text, if it says what the old one says with this change.
fn checked(
    before: &str,
    after: String,
    change: impl FnOnce(&mut Table) -> Option<()>,
) -> Result<String, Unreadable> {
    let mut wanted: Table = before.parse().map_err(|_| NOT_TOML)?;
    change(&mut wanted).ok_or(OTHERWISE)?;
    let found = after.parse::<Table>().map_err(|_| OTHERWISE)?;
    if without_empty(found) == without_empty(wanted) { Ok(after) } else { Err(OTHERWISE) }
}

/// A table of nothing but other tables need not be written itself.
fn without_empty(root: Table) -> Table {
    root.into_iter().filter(|(_, value)| value.as_table().is_none_or(|table| !table.is_empty())).collect()
}

/// The table `[NAME]` and those below it: from its header to the next foreign one.
fn span(text: &str, name: &str) -> Option<(usize, usize)> {
    let mut at = 0;
    let mut found: Option<(usize, usize)> = None;
    for line in text.split_inclusive('\n') {
        if let Some(header) = header(line) {
            let ours = header == name || header.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
            match (&mut found, ours) {
                (None, true) => found = Some((at, text.len())),
                (Some(span), false) if span.1 == text.len() => span.1 = at,
                _ => {}
            }
        }
        at += line.len();
    }
    found
}

fn header(line: &str) -> Option<String> {
    let inside = line.trim().strip_prefix('[')?.trim_start_matches('[');
    let name = inside.split(']').next()?;
    Some(name.split('.').map(|part| part.trim().trim_matches('"')).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "mcp_servers.trl";
    const BODY: &str = "command = \"trl\"\nargs = [\"mcp\"]\n";

    #[test]
    fn everything_else_stays_as_it_is_written() {
        for text in [
            "",
            "# mine\nmodel = \"x\"\n",
            "[mcp_servers]\n",
            "model = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n",
        ] {
            let with = add(text, NAME, BODY).unwrap();
            assert_eq!(get(&with, NAME, "command"), Some(Value::String("trl".to_owned())), "{with}");
            let without = remove(&with, NAME).unwrap().unwrap();
            assert_eq!(without.trim_end(), text.trim_end());
            assert!(!has(&without, NAME));
            assert_eq!(remove(&without, NAME), Ok(None));
        }
    }

    #[test]
    fn a_table_that_is_there_keeps_its_other_keys() {
        let text = "[a]\ncommand = \"a\"\n[mcp_servers.trl]\nargs = [\"mcp\", \"--tools\", \"full\"]\n\
                    command = \"old\" # here\n\n[mcp_servers.trl.env]\nA = \"1\"\n\n[z]\na = 1\n";
        let with = set_key(text, NAME, "command", "trl").unwrap();
        assert_eq!(with, text.replace("command = \"old\" # here", "command = \"trl\""));
        let without = remove(&with, NAME).unwrap().unwrap();
        assert_eq!(without, "[a]\ncommand = \"a\"\n\n[z]\na = 1\n");
    }

    #[test]
    fn what_is_written_otherwise_is_left_alone() {
        let inline = "mcp_servers = { trl = { command = \"old\" }, other = { command = \"x\" } }\n";
        let dotted = "mcp_servers.trl.command = \"old\"\n";
        for text in [inline, dotted] {
            assert!(has(text, NAME));
            assert_eq!(set_key(text, NAME, "command", "trl"), Err(OTHERWISE), "{text}");
            assert_eq!(remove(text, NAME), Err(OTHERWISE), "{text}");
        }
        let only_other = "mcp_servers = { other = { command = \"x\" } }\n";
        assert_eq!(add(only_other, NAME, BODY), Err(OTHERWISE));
        assert_eq!(add("[broken", NAME, BODY), Err(NOT_TOML));
        let in_a_string = "text = \"\"\"\n[mcp_servers.trl]\ncommand = 1\n\"\"\"\n";
        assert!(!has(in_a_string, NAME));
        assert_eq!(remove(in_a_string, NAME), Ok(None));
    }
}
