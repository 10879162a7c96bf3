//! Who may ask: bearer tokens, each with a name and a scope.
//!
//! Tokens come from a setting (one, with every right) and from a file that nobody but
//! the daemon's user can read, one a line: `NAME SCOPE TOKEN`.

use std::fmt;
use std::path::{Path, PathBuf};

use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use trl_protocol::{Code, Fault, Request, Scope};
use trl_runtime::GrantKey;
use trl_sys::private::read_secret;

/// A token shorter than this can be guessed.
const SHORT: usize = 16;
/// Longest file of tokens, in bytes.
const MAX_FILE: u64 = 1024 * 1024;
/// The name of the token that is set without a file.
const ONLY: &str = "default";

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{}: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    #[error("{}:{line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: String },
    #[error("the token of HTTP (TRL_AUTH_TOKEN) {0}")]
    Setting(&'static str),
}

/// What a client may do, and under which name it is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// Of a token that an agent was granted: the runtime allows no more than the grant does.
    pub(crate) key: Option<GrantKey>,
}

impl Grant {
    /// The rights of a token that an agent was granted.
    pub(crate) fn under(key: GrantKey) -> Grant {
        Grant { name: key.id().to_owned(), scope: Scope::Run, key: Some(key) }
    }

    /// Refuses what concerns the whole daemon and is no request.
    pub(crate) fn whole_daemon(&self, what: &str) -> Result<(), Fault> {
        match &self.key {
            None => Ok(()),
            Some(key) => {
                let message = format!("the grant {} does not allow {what}, only requests", key.id());
                Err(Fault::new(Code::AuthFailed, message))
            }
        }
    }

    pub(crate) fn allows(&self, request: &Request) -> Result<(), Fault> {
        let needed = request.scope();
        if needed <= self.scope {
            return Ok(());
        }
        let Grant { name, scope, key: _ } = self;
        let (method, needed, scope) = (request.info().name, needed.name(), scope.name());
        tracing::warn!(token = name, method, "a token was used for more than it may do");
        Err(Fault::new(
            Code::AuthFailed,
            format!("{method} needs the scope {needed}; the token {name:?} has {scope}"),
        ))
    }
}

struct Token {
    secret: String,
    grant: Grant,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Token { secret: _, grant } = self;
        f.debug_struct("Token").field("grant", grant).finish_non_exhaustive()
    }
}

/// Every token that opens this daemon; at least one, or HTTP is not served.
#[derive(Debug, Default)]
pub struct Tokens(Vec<Token>);

impl Tokens {
    /// The one of the setting, which may do everything, and those of the file.
    pub fn load(setting: Option<&str>, file: Option<&Path>) -> Result<Tokens, TokenError> {
        let mut tokens = Tokens::default();
        if let Some(secret) = setting {
            check_secret(secret).map_err(TokenError::Setting)?;
            tokens.add(ONLY, Scope::Admin, secret);
        }
        if let Some(path) = file {
            let failed = |problem: String| TokenError::File { path: path.to_owned(), problem };
            let mut text = String::new();
            read_secret(path, MAX_FILE, &mut text).map_err(|error| failed(error.to_string()))?;
            tokens.read(&text).map_err(|(line, problem)| TokenError::Line {
                path: path.to_owned(),
                line,
                problem,
            })?;
        }
        Ok(tokens)
    }

    fn read(&mut self, text: &str) -> Result<(), (usize, String)> {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |problem: &str| (index + 1, problem.to_owned());
            let [name, scope, secret] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                return Err(bad("a name, a scope (read, run or admin) and a token are expected"));
            };
            let scope = Scope::parse(scope).ok_or_else(|| bad("the scope is none of read, run and admin"))?;
            check_secret(secret).map_err(|problem| bad(&format!("the token {problem}")))?;
            if self.0.iter().any(|token| token.grant.name == name) {
                return Err(bad(&format!("there is a token named {name:?} already")));
            }
            if self.grant(secret.as_bytes()).is_some() {
                return Err(bad("another name has the same token"));
            }
            self.add(name, scope, secret);
        }
        Ok(())
    }

    fn add(&mut self, name: &str, scope: Scope, secret: &str) {
        if secret.len() < SHORT {
            tracing::warn!(
                token = name,
                "this token is short enough to be guessed; 32 random characters are not"
            );
        }
        let grant = Grant { name: name.to_owned(), scope, key: None };
        self.0.push(Token { secret: secret.to_owned(), grant });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What this token opens. Every token is compared, whole, whatever the first ones say:
    /// the time it takes tells nothing but the length of what was given.
    pub(crate) fn grant(&self, given: &[u8]) -> Option<&Grant> {
        let mut found = u32::MAX;
        for (index, token) in self.0.iter().enumerate() {
            let same: Choice = token.secret.as_bytes().ct_eq(given);
            found.conditional_assign(&(index as u32), same);
        }
        self.0.get(found as usize).map(|token| &token.grant)
    }
}

/// What a header can carry, so that nobody wonders why their token is refused.
fn check_secret(secret: &str) -> Result<(), &'static str> {
    match secret {
        "" => Err("is empty"),
        _ if secret.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(()),
        _ => Err("has characters other than letters, digits and ASCII signs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn read(text: &str) -> Result<Tokens, (usize, String)> {
        let mut tokens = Tokens::default();
        tokens.read(text).map(|()| tokens)
    }

    #[test]
    fn a_file_names_its_tokens() {
        let tokens = read("# people\nana admin aaaa\n\n  ci\trun   bbbb\nboard read cccc\n").unwrap();
        let grant =
            |secret: &str| tokens.grant(secret.as_bytes()).map(|grant| (grant.name.as_str(), grant.scope));
        assert_eq!(grant("aaaa"), Some(("ana", Scope::Admin)));
        assert_eq!(grant("bbbb"), Some(("ci", Scope::Run)));
        assert_eq!(grant("cccc"), Some(("board", Scope::Read)));
        for wrong in ["", "a", "aaa", "aaaaa", "AAAA", "bbbc"] {
            assert_eq!(grant(wrong), None, "{wrong:?}");
        }
        assert_eq!(Tokens::default().grant(b""), None);
    }

    #[test]
    fn a_grant_allows_its_scope_and_what_needs_less() {
        let request = |method: &str, params| Request::parse(method, params).unwrap();
        let requests = [
            (Scope::Read, request("session.list", serde_json::json!({}))),
            (Scope::Run, request("session.create", serde_json::json!({}))),
            (Scope::Admin, request("system.shutdown", serde_json::json!({}))),
        ];
        for scope in [Scope::Read, Scope::Run, Scope::Admin] {
            let grant = Grant { name: "ana".into(), scope, key: None };
            for (needed, request) in &requests {
                let allowed = grant.allows(request);
                assert_eq!(allowed.is_ok(), *needed <= scope, "{scope:?} {needed:?}: {allowed:?}");
                if let Err(fault) = allowed {
                    assert_eq!(fault.code, Code::AuthFailed);
                    assert!(
                        fault.message.contains("\"ana\"") && fault.message.contains(needed.name()),
                        "{fault}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line, expected) in [
            ("ana admin\n", 1, "are expected"),
            ("ana admin a b\n", 1, "are expected"),
            ("\nana root aaaa\n", 2, "read, run and admin"),
            ("ana admin a\u{e9}\n", 1, "ASCII"),
            ("ana admin aaaa\nana run bbbb\n", 2, "\"ana\""),
            ("ana admin aaaa\nbob run aaaa\n", 2, "the same token"),
        ] {
            let (at, problem) = read(text).unwrap_err();
            assert_eq!(at, line, "{text:?}");
            assert!(problem.contains(expected), "{text:?}: {problem}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "ana admin aaaa\n").unwrap();
        for (mode, fine) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o660, false)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let loaded = Tokens::load(None, Some(file.path()));
            assert_eq!(loaded.is_ok(), fine, "{mode:o}: {loaded:?}");
        }
        assert!(Tokens::load(None, Some(Path::new("/no/such"))).is_err());
        assert!(Tokens::load(Some(" "), None).is_err());
        assert!(Tokens::load(None, None).unwrap().is_empty());
    }

    #[test]
    fn no_secret_is_shown() {
        let tokens = read("ana admin aaaa\n").unwrap();
        assert_eq!(
            format!("{tokens:?}"),
            r#"Tokens([Token { grant: Grant { name: "ana", scope: Admin, key: None }, .. }])"#
        );
    }
}
