//! Which tools a client is offered: fewer cost a model less to read.

use std::fmt;
use std::str::FromStr;

use crate::toolbox;

/// A named set of tools, or a set of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Profile {
    /// Run commands and deal with what is still running.
    Minimal,
    /// Everything about sessions and commands, nothing about mail.
    Terminal,
    /// The terminal, and mail to be sent and read.
    #[default]
    Default,
    /// Mail only, all of it.
    Mail,
    /// Files as sessions see them, and commands.
    Files,
    /// Every tool but those for files, which most clients have themselves.
    Full,
    /// These tools, by name.
    Tools(Vec<String>),
}

const MINIMAL: &[&str] = &["run", "output", "input", "cancel"];
const TERMINAL: &[&str] =
    &["run", "output", "input", "screen", "wait", "cancel", "list_sessions", "end_session"];
const FILES: &[&str] = &[
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "file_info",
    "move_file",
    "remove_file",
    "make_directory",
];
const POST: &[&str] = &["send", "inbox"];

impl Profile {
    pub const NAMES: &[&str] = &["minimal", "terminal", "default", "mail", "files", "full"];

    pub(crate) fn has(&self, tool: &str) -> bool {
        let listed = |tools: &[&str]| tools.contains(&tool);
        match self {
            Profile::Minimal => listed(MINIMAL),
            Profile::Terminal => listed(TERMINAL),
            Profile::Default => listed(TERMINAL) || listed(POST),
            Profile::Mail => !listed(TERMINAL) && !listed(FILES),
            Profile::Files => listed(FILES) || listed(MINIMAL),
            Profile::Full => !listed(FILES),
            Profile::Tools(names) => names.iter().any(|name| name == tool),
        }
    }
}

/// Neither a profile nor a list of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = Profile::NAMES.iter().copied().chain(toolbox::names()).collect();
        let UnknownProfile(word) = self;
        write!(f, "{word:?} is neither a set of tools nor a tool")?;
        match trl_protocol::request::nearest(word, known.iter().copied()) {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => write!(
                f,
                "; sets are {}; tools {}",
                Profile::NAMES.join(", "),
                known[Profile::NAMES.len()..].join(", ")
            ),
        }
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Profile, UnknownProfile> {
        Ok(match text.trim() {
            "minimal" => Profile::Minimal,
            "terminal" => Profile::Terminal,
            "default" => Profile::Default,
            "mail" => Profile::Mail,
            "files" => Profile::Files,
            "full" => Profile::Full,
            list => {
                let mut names = Vec::new();
                for name in list.split(',').map(str::trim) {
                    match toolbox::names().find(|known| *known == name) {
                        Some(known) => names.push(known.to_owned()),
                        None => return Err(UnknownProfile(name.to_owned())),
                    }
                }
                Profile::Tools(names)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_lists_are_read_and_others_told() {
        assert_eq!("full".parse(), Ok(Profile::Full));
        let some: Profile = "run, output".parse().unwrap();
        assert!(some.has("run") && some.has("output") && !some.has("cancel"));
        let told = "ful".parse::<Profile>().unwrap_err().to_string();
        assert!(told.contains("did you mean `full`"), "{told}");
        assert!("run,nothing-like-it".parse::<Profile>().is_err());
    }

    #[test]
    fn every_named_tool_of_a_profile_is_there() {
        for name in MINIMAL.iter().chain(TERMINAL).chain(POST).chain(FILES) {
            assert!(toolbox::names().any(|known| known == *name), "{name}");
        }
    }
}
