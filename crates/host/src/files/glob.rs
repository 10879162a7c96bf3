//! Patterns of names: `*`, `?`, `[…]` within a name, `**` across directories.

/// Whether a path (names joined by `/`) matches a pattern as a whole.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').collect();
    let path: Vec<&str> = path.split('/').collect();
    parts_match(&pattern, &path)
}

fn parts_match(pattern: &[&str], path: &[&str]) -> bool {
    // Rows of a table: whether the rest of the pattern matches the rest of the path. A
    // recursion would take a time that grows exponentially with the number of `**`.
    let mut next = vec![false; path.len() + 1];
    next[path.len()] = true;
    for part in pattern.iter().rev() {
        let mut row = vec![false; path.len() + 1];
        for at in (0..=path.len()).rev() {
            row[at] = if *part == "**" {
                next[at] || (at < path.len() && row[at + 1])
            } else {
                at < path.len() && next[at + 1] && name_matches(part, path[at])
            };
        }
        next = row;
    }
    next[0]
}

fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on if the last `*` has to take one more.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => set_matches(&pattern[p..], name[n]),
            Some(character) if *character == name[n] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => (p, n) = (p + length, n + 1),
            (None, Some((after, taken))) => {
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|character| *character == '*')
}

/// How long the set is, if the character is in it. A `[` that is never closed is itself.
fn set_matches(pattern: &[char], character: char) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = 1 + usize::from(negated);
    let Some(length) = pattern.iter().skip(first + 1).position(|c| *c == ']') else {
        return (character == '[').then_some(1);
    };
    let set = &pattern[first..first + 1 + length];
    let mut found = false;
    let mut at = 0;
    while at < set.len() {
        if set.get(at + 1) == Some(&'-') && at + 2 < set.len() {
            found |= (set[at]..=set[at + 2]).contains(&character);
            at += 3;
        } else {
            found |= set[at] == character;
            at += 1;
        }
    }
    (found != negated).then_some(first + 1 + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("*.rs", "main.rs", true),
            ("*.rs", "src/main.rs", false),
            ("**/*.rs", "main.rs", true),
            ("**/*.rs", "a/b/main.rs", true),
            ("src/**", "src/a/b", true),
            ("src/**/b", "src/b", true),
            ("src/*/b", "src/b", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[", "[", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("", "a", false),
            ("é*", "école", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
        let hostile = "**/".repeat(200) + "x";
        let deep = "a/".repeat(200) + "y";
        assert!(!matches(&hostile, &deep));
        assert!(!matches(&("*a".repeat(500) + "b"), &"a".repeat(2000)));
    }
}
