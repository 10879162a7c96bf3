//! One entry of a JSON file, set or removed, with everything else left as it is written: order, layout,
//! comments (which some programs allow in their JSON).

/// A member of an object: where it begins (at its key), and where its value begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    key: String,
    start: usize,
    value: (usize, usize),
}

/// Why a file is left alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

/// Sets `outer.inner` to `value`, which is JSON itself.
pub(super) fn set(text: &str, outer: &str, inner: &str, value: &str) -> Result<String, Unreadable> {
    if text.trim().is_empty() {
        return Ok(format!("{{\n  \"{outer}\": {{\n    \"{inner}\": {}\n  }}\n}}\n", indented(value, 4)));
    }
    let root = root(text)?;
    let members = members(text, root)?;
    let Some(there) = members.iter().find(|member| member.key == outer) else {
        let entry = format!("\"{outer}\": {{\n    \"{inner}\": {}\n  }}", indented(value, 4));
        return Ok(added(text, root, &members, &entry, 2));
    };
    let inside = self::members(text, there.value)?;
    match inside.iter().find(|member| member.key == inner) {
        Some(old) => Ok(format!("{}{}{}", &text[..old.value.0], indented(value, 4), &text[old.value.1..])),
        None => {
            let entry = format!("\"{inner}\": {}", indented(value, 4));
            Ok(added(text, there.value, &inside, &entry, 4))
        }
    }
}

/// Removes `outer.inner`; `None` if it is not there. An object that is then empty stays.
pub(super) fn remove(text: &str, outer: &str, inner: &str) -> Result<Option<String>, Unreadable> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let members = members(text, root(text)?)?;
    let Some(there) = members.iter().find(|member| member.key == outer) else { return Ok(None) };
    let inside = self::members(text, there.value)?;
    let Some(at) = inside.iter().position(|member| member.key == inner) else { return Ok(None) };
    let (before, after) = (at.checked_sub(1).map(|n| &inside[n]), inside.get(at + 1));
    let (from, to) = match (before, after) {
        (_, Some(after)) => (inside[at].start, after.start),
        (Some(before), None) => (before.value.1, inside[at].value.1),
        (None, None) => (there.value.0 + 1, there.value.1 - 1),
    };
    Ok(Some(format!("{}{}", &text[..from], &text[to..])))
}

/// The value of `outer.inner`, as it is written.
pub(super) fn get<'t>(text: &'t str, outer: &str, inner: &str) -> Option<&'t str> {
    let find = |span, key: &str| members(text, span).ok()?.into_iter().find(|member| member.key == key);
    let (from, to) = find(find(root(text).ok()?, outer)?.value, inner)?.value;
    text.get(from..to)
}

/// Puts another value where `path` leads; `None` if it leads nowhere.
pub(super) fn replace(text: &str, path: &[&str], value: &str) -> Option<String> {
    let mut span = root(text).ok()?;
    for key in path {
        span = members(text, span).ok()?.into_iter().find(|member| member.key == *key)?.value;
    }
    Some(format!("{}{value}{}", &text[..span.0], &text[span.1..]))
}

/// Without comments and the commas before closing brackets, which not every reader of JSON takes.
pub(super) fn strict(text: &str) -> String {
    let mut scan = Scan { text, at: 0 };
    let mut plain = String::with_capacity(text.len());
    loop {
        scan.skip_blank();
        let start = scan.at;
        match scan.byte() {
            None => return plain,
            // Without an end it is no JSON, as it is.
            Some(b'"') if scan.string().is_err() => scan.at = text.len(),
            Some(b'"') => {}
            Some(byte) => {
                if matches!(byte, b'}' | b']') && plain.ends_with(',') {
                    plain.pop();
                }
                let rest = &text[start..];
                scan.at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        plain.push_str(&text[start..scan.at]);
    }
}

fn indented(value: &str, by: usize) -> String {
    value.replace('\n', &format!("\n{}", " ".repeat(by)))
}

fn added(text: &str, object: (usize, usize), members: &[Member], entry: &str, by: usize) -> String {
    let pad = " ".repeat(by);
    match members.last() {
        Some(last) => {
            let at = last.value.1;
            format!("{},\n{pad}{entry}{}", &text[..at], &text[at..])
        }
        None => {
            let outer = " ".repeat(by - 2);
            format!("{}\n{pad}{entry}\n{outer}{}", &text[..object.0 + 1], &text[object.1 - 1..])
        }
    }
}

fn root(text: &str) -> Result<(usize, usize), Unreadable> {
    let mut scan = Scan { text, at: 0 };
    scan.skip_blank();
    let start = scan.at;
    scan.value()?;
    let end = scan.at;
    scan.skip_blank();
    let is_object = text.as_bytes().get(start) == Some(&b'{');
    if scan.at == text.len() && is_object {
        Ok((start, end))
    } else {
        Err(Unreadable("it is not a JSON object"))
    }
}

fn members(text: &str, (from, to): (usize, usize)) -> Result<Vec<Member>, Unreadable> {
    let mut scan = Scan { text, at: from };
    if !scan.take(b'{') {
        return Err(Unreadable("an entry that should be an object is none"));
    }
    let mut found = Vec::new();
    loop {
        scan.skip_blank();
        if scan.at >= to || scan.take(b'}') {
            return Ok(found);
        }
        let start = scan.at;
        scan.string()?;
        let key =
            serde_json::from_str(&text[start..scan.at]).map_err(|_| Unreadable("a key is not a string"))?;
        scan.skip_blank();
        if !scan.take(b':') {
            return Err(Unreadable("a colon is missing"));
        }
        scan.skip_blank();
        let value = scan.at;
        scan.value()?;
        found.push(Member { key, start, value: (value, scan.at) });
        scan.skip_blank();
        scan.take(b',');
    }
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
}

impl Scan<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.byte() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Blanks and comments.
    fn skip_blank(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = &self.text[self.at..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else if blank == 0 {
                return;
            }
        }
    }

    fn string(&mut self) -> Result<(), Unreadable> {
        if !self.take(b'"') {
            return Err(Unreadable("a string is expected"));
        }
        while let Some(byte) = self.byte() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return Ok(()),
                _ => {}
            }
        }
        Err(Unreadable("a string has no end"))
    }

    fn value(&mut self) -> Result<(), Unreadable> {
        match self.byte() {
            Some(b'"') => self.string(),
            Some(b'{' | b'[') => self.nested(),
            Some(_) => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| ",]}/".contains(c) || c.is_whitespace()).unwrap_or(rest.len());
                self.at += end;
                if end == 0 { Err(Unreadable("a value is missing")) } else { Ok(()) }
            }
            None => Err(Unreadable("it ends too early")),
        }
    }

    fn nested(&mut self) -> Result<(), Unreadable> {
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                b'/' => {
                    let before = self.at;
                    self.skip_blank();
                    self.at += usize::from(self.at == before);
                }
                _ => self.at += 1,
            }
        }
        Err(Unreadable("a bracket is not closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "{\n  \"command\": \"trl\"\n}";

    #[test]
    fn everything_else_stays_as_it_is_written() {
        let cases = [
            "",
            "{}",
            "{\"a\": 1}",
            "{\n  // mine\n  \"z\": [1, 2], /* x } */ \"a\": {\"b\": \"}\\\"\"}\n}\n",
            "{\"servers\": {}}",
            "{\"servers\": {\"other\": {\"command\": \"x\"}}, \"b\": true}",
            "{\"servers\": {\"trl\": 5, \"other\": {}}}",
        ];
        for text in cases {
            let with = set(text, "servers", "trl", OURS).unwrap();
            let value = get(&with, "servers", "trl").unwrap();
            let value: serde_json::Value = serde_json::from_str(value).unwrap();
            assert_eq!(value["command"], "trl", "{text} -> {with}");
            assert_eq!(set(&with, "servers", "trl", OURS).unwrap(), with, "the same again changes nothing");
            let without = remove(&with, "servers", "trl").unwrap().unwrap();
            assert_eq!(get(&without, "servers", "trl"), None, "{without}");
            assert_eq!(remove(&without, "servers", "trl"), Ok(None));
            for kept in ["// mine", "/* x } */", "\"other\"", "\"b\": true", "\"z\": [1, 2]"] {
                assert_eq!(text.contains(kept), without.contains(kept), "{text} -> {without}");
            }
            if !text.contains("//") {
                assert!(serde_json::from_str::<serde_json::Value>(&with).is_ok(), "{with}");
                assert!(serde_json::from_str::<serde_json::Value>(&without).is_ok(), "{without}");
            }
        }
    }

    #[test]
    fn one_value_can_be_replaced() {
        let text = "{\n  \"a\": {\"b\": [1, /* x */ 2], \"c\": 3} // end\n}";
        assert_eq!(replace(text, &["a", "b"], "7").unwrap(), text.replace("[1, /* x */ 2]", "7"));
        assert_eq!(replace(text, &["a", "z"], "7"), None);
        assert_eq!(replace(text, &["a", "c", "d"], "7"), None);
    }

    #[test]
    fn what_only_some_take_is_removed() {
        let text = "{ // mine\n \"a\": [\"//,]\", 1, ], /* } */ \"é\": \"\\\"\", }";
        let parsed: serde_json::Value = serde_json::from_str(&strict(text)).unwrap();
        assert_eq!(parsed, serde_json::json!({"a": ["//,]", 1], "é": "\""}));
        assert!(serde_json::from_str::<serde_json::Value>(&strict("{\"a")).is_err());
    }

    #[test]
    fn what_is_no_object_is_left_alone() {
        for text in ["[]", "5", "{", "{\"servers\": 5}", "nonsense", "{} {}"] {
            assert!(set(text, "servers", "trl", OURS).is_err(), "{text}");
        }
    }
}
