//! Files: read, written, uploaded. They are those of this machine, with the rights of whoever runs the server.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::archive;
use crate::exception::Exception;
use crate::multipart::Form;
use crate::text::backslashed;

#[derive(Debug, Deserialize)]
pub(crate) struct ReadFile {
    path: String,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    errors: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WriteFile {
    path: String,
    content: String,
}

pub(crate) async fn read(request: ReadFile) -> Result<Value, Exception> {
    let ReadFile { path, encoding, errors } = request;
    let bytes = tokio::fs::read(&path).await.map_err(|error| Exception::of_file(&error, &path))?;
    let text = decoded(&bytes, encoding.as_deref(), errors.as_deref())?;
    // As Python reads text.
    Ok(json!({"content": text.replace("\r\n", "\n").replace('\r', "\n")}))
}

fn decoded(bytes: &[u8], encoding: Option<&str>, errors: Option<&str>) -> Result<String, Exception> {
    let name = encoding.unwrap_or("utf-8").to_ascii_lowercase().replace('_', "-");
    match name.as_str() {
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => {
            Ok(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        "ascii" | "us-ascii" => ascii(bytes, errors.unwrap_or("strict")),
        "utf-8" | "utf8" | "utf-8-sig" => {
            let bytes = if name == "utf-8-sig" {
                bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
            } else {
                bytes
            };
            utf8(bytes, errors.unwrap_or("strict"))
        }
        _ => Err(Exception::builtin("LookupError", format!("unknown encoding: {name}"))),
    }
}

fn ascii(bytes: &[u8], errors: &str) -> Result<String, Exception> {
    let mut text = String::new();
    for (at, byte) in bytes.iter().copied().enumerate() {
        match errors {
            _ if byte.is_ascii() => text.push(char::from(byte)),
            "replace" | "surrogateescape" => text.push(char::REPLACEMENT_CHARACTER),
            "ignore" => {}
            "backslashreplace" => text.push_str(&format!("\\x{byte:02x}")),
            "strict" => {
                let said = format!(
                    "'ascii' codec can't decode byte 0x{byte:02x} in position {at}: ordinal not in range(128)"
                );
                return Err(Exception::builtin("ValueError", said));
            }
            _ => {
                return Err(Exception::builtin(
                    "LookupError",
                    format!("unknown error handler name '{errors}'"),
                ));
            }
        }
    }
    Ok(text)
}

fn utf8(bytes: &[u8], errors: &str) -> Result<String, Exception> {
    match errors {
        "strict" => String::from_utf8(bytes.to_vec()).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let byte = bytes.get(at).copied().unwrap_or_default();
            let said = format!("'utf-8' codec can't decode byte 0x{byte:02x} in position {at}: invalid byte");
            Exception::builtin("ValueError", said)
        }),
        "replace" | "surrogateescape" => Ok(String::from_utf8_lossy(bytes).into_owned()),
        "ignore" => Ok(bytes.utf8_chunks().map(|chunk| chunk.valid()).collect()),
        "backslashreplace" => Ok(backslashed(bytes)),
        _ => Err(Exception::builtin("LookupError", format!("unknown error handler name '{errors}'"))),
    }
}

pub(crate) async fn write(request: WriteFile) -> Result<Value, Exception> {
    let WriteFile { path, content } = request;
    put(Path::new(&path), content.as_bytes()).await.map_err(|error| Exception::of_file(&error, &path))?;
    Ok(json!({}))
}

async fn put(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    tokio::fs::write(path, content).await
}

pub(crate) async fn upload(form: Form) -> Result<Value, Exception> {
    let missing = |name: &str| Exception::builtin("ValueError", format!("the form has no field {name}"));
    let file = form.field("file").ok_or_else(|| missing("file"))?;
    let target = form.text("target_path").ok_or_else(|| missing("target_path"))?;
    let unzip = form.text("unzip").is_some_and(|word| matches!(word.as_str(), "true" | "True" | "1"));
    let failed = |error: std::io::Error| Exception::of_file(&error, &target);
    if !unzip {
        let path = PathBuf::from(&target);
        let path = if path.is_dir() { path.join(file.file_name()) } else { path };
        put(&path, &file.content).await.map_err(failed)?;
        return Ok(json!({}));
    }
    let entries = archive::entries(&file.content).map_err(|problem| Exception::new_bad_zip(&problem))?;
    let root = PathBuf::from(&target);
    tokio::fs::create_dir_all(&root).await.map_err(failed)?;
    for entry in entries {
        let path = root.join(inside(&entry.name));
        if entry.name.ends_with('/') {
            tokio::fs::create_dir_all(&path).await.map_err(failed)?;
            continue;
        }
        put(&path, &entry.content).await.map_err(failed)?;
        if let Some(mode) = entry.mode {
            use std::os::unix::fs::PermissionsExt as _;
            let rights = std::fs::Permissions::from_mode(mode & 0o777);
            tokio::fs::set_permissions(&path, rights).await.map_err(failed)?;
        }
    }
    Ok(json!({}))
}

/// The path without what would lead out of the directory.
fn inside(name: &str) -> PathBuf {
    let normal = |component| match component {
        Component::Normal(part) => Some(part),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    };
    Path::new(name).components().filter_map(normal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_the_directory() {
        for (name, path) in [("a/b", "a/b"), ("../../a", "a"), ("/etc/x", "etc/x"), ("a/./../b", "a/b")] {
            assert_eq!(inside(name), Path::new(path));
        }
    }

    #[test]
    fn encodings() {
        assert_eq!(decoded(b"\xe4", Some("latin-1"), None).unwrap(), "ä");
        assert_eq!(decoded(b"a\xff", None, Some("replace")).unwrap(), "a\u{fffd}");
        assert_eq!(decoded(b"a\xff", None, Some("ignore")).unwrap(), "a");
        assert_eq!(decoded(b"a\xff", None, Some("backslashreplace")).unwrap(), "a\\xff");
        assert!(decoded(b"a\xff", None, None).is_err());
        assert_eq!(decoded("é".as_bytes(), Some("ascii"), Some("replace")).unwrap(), "\u{fffd}\u{fffd}");
        assert_eq!(decoded("aé".as_bytes(), Some("ascii"), Some("backslashreplace")).unwrap(), "a\\xc3\\xa9");
        assert!(decoded("é".as_bytes(), Some("ascii"), None).is_err());
        assert!(decoded(b"a", Some("klingon"), None).is_err());
    }
}
