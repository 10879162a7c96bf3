//! One table of a TOML file, set or removed, with everything else left as it is written.

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

pub(super) fn set(text: &str, name: &str, body: &str) -> String {
    let table = format!("[{name}]\n{body}");
    match span(text, name) {
        Some((from, to)) => {
            let gap = if to < text.len() { "\n" } else { "" };
            format!("{}{table}{gap}{}", &text[..from], &text[to..])
        }
        None if text.trim().is_empty() => table,
        None => format!("{}\n\n{table}", text.trim_end()),
    }
}

pub(super) fn remove(text: &str, name: &str) -> Option<String> {
    let (from, to) = span(text, name)?;
    let (before, after) = (text[..from].trim_end(), &text[to..]);
    Some(match (before, after) {
        ("", after) => after.to_owned(),
        (before, "") => format!("{before}\n"),
        (before, after) => format!("{before}\n\n{after}"),
    })
}

/// The table as it is written.
pub(super) fn get<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    span(text, name).map(|(from, to)| &text[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_else_stays_as_it_is_written() {
        let body = "command = \"trl\"\nargs = [\"mcp\"]\n";
        for text in [
            "",
            "# mine\nmodel = \"x\"\n",
            "model = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n",
            "[mcp_servers.trl]\ncommand = \"old\"\n\n[mcp_servers.trl.env]\nA = \"1\"\n\n[z]\na = 1\n",
        ] {
            let with = set(text, "mcp_servers.trl", body);
            let parsed: toml::Table = with.parse().unwrap();
            assert_eq!(parsed["mcp_servers"]["trl"]["command"].as_str(), Some("trl"), "{with}");
            assert_eq!(set(&with, "mcp_servers.trl", body), with);
            let without = remove(&with, "mcp_servers.trl").unwrap();
            assert!(without.parse::<toml::Table>().is_ok(), "{without}");
            assert_eq!(remove(&without, "mcp_servers.trl"), None);
            for kept in ["# mine", "model = \"x\"", "[mcp_servers.other]", "[z]"] {
                assert_eq!(text.contains(kept), without.contains(kept), "{without}");
            }
        }
    }
}
