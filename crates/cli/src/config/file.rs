//! The config file: TOML whose keys are the settings' names in small letters, and a table `runtimes`.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use toml::Value;
use trl_protocol::request::nearest;
use trl_runtime::NamedRuntime;

use super::keys::Key;
use super::layers::{Origin, SettingText};
use super::{ConfigError, runtimes};

/// A file that is not there says nothing, unless it was asked for by name.
pub(super) fn read(path: &Path, asked_for: bool) -> Result<FromFile, ConfigError> {
    let bad = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let (text, mode) = match open(path, asked_for) {
        Ok(read) => read,
        Err(Unread::Io(error)) if is_absent(&error) && !asked_for => return Ok(FromFile::default()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let mut table: toml::Table =
        toml::from_str(&text).map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
    let runtimes =
        table.remove("runtimes").map_or(Ok(Vec::new()), |value| runtimes::read(value).map_err(bad))?;
    let settings: Result<Vec<_>, _> =
        table.into_iter().map(|(name, value)| setting(path, &name, value)).collect();
    let settings = settings?;
    if mode & 0o077 != 0 && settings.iter().any(|(key, _)| *key == Key::AuthToken) {
        return Err(bad(format!(
            "it has a token, and others can read it (mode {mode:04o}); `chmod 600` closes it"
        )));
    }
    Ok(FromFile { settings, runtimes })
}

#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a file")]
    NoFile,
    #[error(
        "it belongs to user {owner}, not to this one ({me}): its settings name programs and files that would be used"
    )]
    Foreign { owner: u32, me: u32 },
    #[error("others can write it (mode {mode:04o}); `chmod go-w` closes it")]
    Writable { mode: u32 },
}

/// The text and the mode of the file. Whoever could write it could choose what this user runs.
fn open(path: &Path, asked_for: bool) -> Result<(String, u32), Unread> {
    // A file that was named may be a pipe, such as `<(…)` of a shell.
    let flags = if asked_for { OFlags::empty() } else { OFlags::NONBLOCK };
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() && !asked_for {
        return Err(Unread::NoFile);
    }
    let (owner, me) = (meta.uid(), rustix::process::geteuid().as_raw());
    if ![0, me].contains(&owner) {
        return Err(Unread::Foreign { owner, me });
    }
    // What is not a file, such as `/dev/null`, is as it is for everybody.
    let mode = if meta.is_file() { meta.mode() & 0o7777 } else { 0 };
    if mode & 0o002 != 0 {
        return Err(Unread::Writable { mode });
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((text, mode))
}

/// What a config file says.
#[derive(Debug, Default)]
pub(super) struct FromFile {
    pub(super) settings: Vec<(Key, SettingText)>,
    pub(super) runtimes: Vec<NamedRuntime>,
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn setting(path: &Path, name: &str, value: Value) -> Result<(Key, SettingText), ConfigError> {
    let known = || Key::ALL.iter().filter_map(|key| Some((*key, key.in_file()?)));
    let Some((key, in_file)) = known().find(|(_, in_file)| *in_file == name) else {
        let hint = match nearest(name, known().map(|(_, in_file)| in_file)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => {
                format!("; known: {}", known().map(|(_, in_file)| in_file).collect::<Vec<_>>().join(", "))
            }
        };
        return Err(ConfigError::UnknownKey { path: path.to_owned(), key: name.to_owned(), hint });
    };
    let origin = Origin::File(path.to_owned(), in_file);
    let text = match value {
        Value::String(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(yes) => yes.to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            let value = value.to_string();
            return Err(ConfigError::Value { origin, value, expected: "a text, a number, true or false" });
        }
    };
    Ok((key, SettingText { text, origin }))
}
