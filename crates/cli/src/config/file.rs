//! The config file: flat TOML whose keys are the settings' names in small letters.

use std::io;
use std::path::Path;

use toml::Value;
use trl_protocol::request::nearest;

use super::ConfigError;
use super::keys::Key;
use super::layers::{Origin, Said};

/// A file that is not there says nothing, unless it was asked for by name.
pub(super) fn read(path: &Path, asked_for: bool) -> Result<Vec<(Key, Said)>, ConfigError> {
    let bad = |problem: String| ConfigError::File { path: path.to_owned(), problem };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if is_absent(&error) && !asked_for => return Ok(Vec::new()),
        Err(error) => return Err(bad(error.to_string())),
    };
    let table: toml::Table =
        toml::from_str(&text).map_err(|error| bad(error.to_string().trim_end().to_owned()))?;
    table.into_iter().map(|(name, value)| setting(path, &name, value)).collect()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn setting(path: &Path, name: &str, value: Value) -> Result<(Key, Said), ConfigError> {
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
    Ok((key, Said { text, origin }))
}
