//! The config file: TOML whose keys are the settings' names in small letters, and a table `runtimes`.

use std::io;
use std::path::Path;

use toml::Value;
use trl_protocol::request::nearest;
use trl_runtime::NamedRuntime;

use super::keys::Key;
use super::layers::{Origin, SettingText};
use super::{ConfigError, runtimes};

/// A file that is not there says nothing, unless it was asked for by name.
pub(super) fn read(path: &Path, asked_for: bool) -> Result<FromFile, ConfigError> {
    let bad = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) && !asked_for => return Ok(FromFile::default()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let mut table: toml::Table =
        toml::from_str(&text).map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
    let runtimes =
        table.remove("runtimes").map_or(Ok(Vec::new()), |value| runtimes::read(value).map_err(bad))?;
    let settings: Result<_, _> = table.into_iter().map(|(name, value)| setting(path, &name, value)).collect();
    Ok(FromFile { settings: settings?, runtimes })
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
