//! Files: read, written, uploaded. The daemon does it in a session of the server's own, so that its isolation and
//! limits hold for files, too. Large ones travel in parts.

use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use trl_client::Error;
use trl_protocol::exec::Encoding;
use trl_protocol::file::{FileKind, MakeDirParams, Mode, ReadParams, StatParams, WriteParams};
use trl_protocol::{Code, methods};

use crate::archive;
use crate::exception::Exception;
use crate::multipart::Form;
use crate::state::Shared;
use crate::text::backslashed;

/// Moved with one request.
const PART: usize = 4 * 1024 * 1024;

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

pub(crate) async fn read(shared: &Shared, request: ReadFile) -> Result<Value, Exception> {
    let ReadFile { path, encoding, errors } = request;
    let bytes = Place::of(shared).await?.read(&path).await?;
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

pub(crate) async fn write(shared: &Shared, request: WriteFile) -> Result<Value, Exception> {
    let WriteFile { path, content } = request;
    Place::of(shared).await?.write(&path, content.as_bytes(), None).await?;
    Ok(json!({}))
}

pub(crate) async fn upload(shared: &Shared, form: Form) -> Result<Value, Exception> {
    let missing = |name: &str| Exception::builtin("ValueError", format!("the form has no field {name}"));
    let file = form.field("file").ok_or_else(|| missing("file"))?;
    let target = form.text("target_path").ok_or_else(|| missing("target_path"))?;
    let unzip = form.text("unzip").is_some_and(|word| matches!(word.as_str(), "true" | "True" | "1"));
    let place = Place::of(shared).await?;
    if !unzip {
        let path = match place.is_dir(&target).await? {
            true => text_of(&Path::new(&target).join(file.file_name())),
            false => target,
        };
        place.write(&path, &file.content, None).await?;
        return Ok(json!({}));
    }
    let entries = archive::entries(&file.content).map_err(|problem| Exception::new_bad_zip(&problem))?;
    place.make_dir(&target).await?;
    for entry in entries {
        let path = text_of(&Path::new(&target).join(inside(&entry.name)));
        match entry.name.ends_with('/') {
            true => place.make_dir(&path).await?,
            false => place.write(&path, &entry.content, entry.mode.map(|mode| mode & 0o777)).await?,
        }
    }
    Ok(json!({}))
}

/// Names come as text, and stay it.
fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The session whose files are meant.
struct Place<'a> {
    shared: &'a Shared,
    session: &'a str,
}

impl<'a> Place<'a> {
    async fn of(shared: &'a Shared) -> Result<Place<'a>, Exception> {
        Ok(Place { shared, session: shared.beside().await? })
    }

    async fn read(&self, path: &str) -> Result<Vec<u8>, Exception> {
        let mut bytes = Vec::new();
        loop {
            let params = ReadParams {
                session_id: self.session.to_owned(),
                path: path.to_owned(),
                offset: bytes.len() as u64,
                limit: Some(PART as u64),
                encoding: Encoding::Base64,
            };
            let read = self.shared.client.call::<methods::FileRead>(&params).await;
            let read = read.map_err(|error| of_file(error, path))?;
            let part = STANDARD.decode(read.base64.unwrap_or_default()).map_err(Exception::internal)?;
            let is_last = part.is_empty() || read.next_offset >= read.total_bytes;
            bytes.extend(part);
            if is_last {
                return Ok(bytes);
            }
        }
    }

    /// The first part replaces the file; the others are written behind it. The last one sets the permissions: with
    /// them, the file may be closed to writers.
    async fn write(&self, path: &str, content: &[u8], mode: Option<u32>) -> Result<(), Exception> {
        let count = content.len().div_ceil(PART).max(1);
        for number in 0..count {
            let from = number * PART;
            let part = content.get(from..content.len().min(from + PART)).unwrap_or_default();
            let params = WriteParams {
                session_id: self.session.to_owned(),
                path: path.to_owned(),
                content: STANDARD.encode(part),
                encoding: Encoding::Base64,
                offset: (number > 0).then_some(from as u64),
                mode: mode.filter(|_| number + 1 == count).map(Mode),
                make_parents: true,
                ..WriteParams::default()
            };
            let written = self.shared.client.call::<methods::FileWrite>(&params).await;
            written.map_err(|error| of_file(error, path))?;
        }
        Ok(())
    }

    async fn make_dir(&self, path: &str) -> Result<(), Exception> {
        let params =
            MakeDirParams { session_id: self.session.to_owned(), path: path.to_owned(), parents: true };
        let made = self.shared.client.call::<methods::FileMakeDir>(&params).await;
        made.map(drop).map_err(|error| of_file(error, path))
    }

    async fn is_dir(&self, path: &str) -> Result<bool, Exception> {
        let params = StatParams { session_id: self.session.to_owned(), path: path.to_owned(), follow: true };
        match self.shared.client.call::<methods::FileStat>(&params).await {
            Ok(entry) => Ok(entry.kind == FileKind::Directory),
            Err(Error::Fault(fault)) if fault.code == Code::FileNotFound => Ok(false),
            Err(error) => Err(of_file(error, path)),
        }
    }
}

/// As Python reports it for a file.
fn of_file(error: Error, path: &str) -> Exception {
    let Error::Fault(fault) = error else { return Exception::of_daemon(error) };
    let number = match fault.code {
        Code::FileNotFound if fault.message.contains("not a directory") => 20,
        Code::FileNotFound => 2,
        Code::FileDenied => 13,
        Code::FileExists => 17,
        Code::InvalidParams if fault.message.ends_with("is a directory") => 21,
        Code::ResourcePressure => 28,
        _ => return Exception::builtin("OSError", fault.message),
    };
    Exception::of_file(&std::io::Error::from_raw_os_error(number), path)
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
