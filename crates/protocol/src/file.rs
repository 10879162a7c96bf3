//! Files as a session sees them: params and replies of `file.…`.
//!
//! The same types go over the host's wire, since the host does the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exec::Encoding;

/// Largest part of a file that one `file.read` returns.
pub const MAX_READ_BYTES: u64 = 8 * 1024 * 1024;
/// Largest file that `file.edit` changes.
pub const MAX_EDIT_BYTES: u64 = 64 * 1024 * 1024;
/// Entries that one `file.list` returns.
pub const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadParams {
    /// A session's id or name.
    pub session_id: String,
    /// Relative to the session's working directory, or absolute.
    pub path: String,
    #[serde(default)]
    pub offset: u64,
    /// At most 8 MiB, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(default)]
    pub encoding: Encoding,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    pub offset: u64,
    /// Where the next part begins.
    pub next_offset: u64,
    pub total_bytes: u64,
    /// Of the whole file, if this reply has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The bytes are not UTF-8; U+FFFD stands for what is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteParams {
    /// A session's id or name.
    pub session_id: String,
    pub path: String,
    pub content: String,
    /// How `content` is given.
    #[serde(default)]
    pub encoding: Encoding,
    /// Adds to the end instead of replacing the file.
    #[serde(default)]
    pub append: bool,
    /// Writes at this place into the file as it is, instead of replacing it; the same again changes nothing.
    /// Beyond its end: `FILE_CONFLICT`. Not with `append`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Permissions, as an octal string such as `0644`. Default: those of the file that is replaced,
    /// else what the session's processes would give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Makes missing directories on the way.
    #[serde(default)]
    pub make_parents: bool,
    /// Writes only if the file now has this content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WriteReply {
    /// Bytes that were written.
    pub bytes: u64,
    /// Of the whole file afterwards; missing if something was added to a large one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Size of the file afterwards.
    pub total_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditParams {
    /// A session's id or name.
    pub session_id: String,
    pub path: String,
    /// The text to replace. It must occur exactly once, unless `all` is set.
    pub old: String,
    pub new: String,
    /// Replaces every occurrence.
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EditReply {
    /// Occurrences that were replaced.
    pub replaced: u64,
    /// Of the whole file afterwards.
    pub sha256: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// A session's id or name.
    pub session_id: String,
    /// A directory; default: the session's working directory.
    #[serde(default = "here")]
    pub path: String,
    /// Levels of directories to list. Default: 1, or all of them if `glob` names directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Only entries that match: `*` and `?` within a name, `**` across directories. Without a
    /// `/` it is compared with names, otherwise with the path below the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
}

fn here() -> String {
    ".".to_owned()
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListReply {
    /// Sorted by path.
    pub entries: Vec<FileEntry>,
    /// There are more entries than are listed.
    pub truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    /// A device, a socket or a named pipe.
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Can be given to other requests of the session as it is.
    pub path: String,
    pub kind: FileKind,
    pub bytes: u64,
    pub mode: Mode,
    /// RFC 3339, UTC.
    pub modified_at: String,
    /// Where a symbolic link leads, as it is written there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatParams {
    /// A session's id or name.
    pub session_id: String,
    pub path: String,
    /// About what a symbolic link leads to, not about the link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveParams {
    /// A session's id or name.
    pub session_id: String,
    pub from: String,
    pub to: String,
    /// Replaces what is at `to`.
    #[serde(default)]
    pub overwrite: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveParams {
    /// A session's id or name.
    pub session_id: String,
    pub path: String,
    /// A directory with everything in it.
    #[serde(default)]
    pub recursive: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    pub path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeDirParams {
    /// A session's id or name.
    pub session_id: String,
    pub path: String,
    /// Makes missing directories on the way, and accepts one that is there.
    #[serde(default)]
    pub parents: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MadeDir {
    pub path: String,
}

/// Permission bits, written as a string of octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:04o}", self.0))
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        let written = serde_json::Value::deserialize(deserializer)?;
        let digits = written.as_str().map(|text| text.strip_prefix("0o").unwrap_or(text));
        // A number is decimal in JSON: 644 would mean 1204.
        let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
        mode.filter(|mode| *mode <= 0o7777).map(Mode).ok_or_else(|| {
            let shown: String = written.to_string().chars().take(80).collect();
            serde::de::Error::custom(format_args!(
                "permissions are a string of octal digits such as \"0644\", not {shown}"
            ))
        })
    }
}

impl JsonSchema for Mode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Permission bits as an octal string.",
            "type": "string",
            "pattern": "^(0o)?[0-7]{1,5}$",
        })
    }
}

/// What a host is asked to do with a file. Params are checked by the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOp {
    /// The bytes come in data frames before the answer.
    Read(ReadParams),
    /// With the content as bytes; `content` is empty.
    Write(WriteParams, #[serde(with = "crate::wire::base64_bytes")] Vec<u8>),
    Edit(EditParams),
    List(ListParams),
    Stat(StatParams),
    Move(MoveParams),
    Remove(RemoveParams),
    MakeDir(MakeDirParams),
}

/// What a host answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileDone {
    Read { offset: u64, next_offset: u64, total: u64, sha256: Option<String> },
    Written(WriteReply),
    Edited(EditReply),
    Listed(ListReply),
    Stat(FileEntry),
    Moved(Moved),
    Removed(Removed),
    MadeDir(MadeDir),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal() {
        let read = |text: &str| serde_json::from_str::<Mode>(text).map(|mode| mode.0).ok();
        for (text, expected) in [
            ("\"0644\"", Some(0o644)),
            ("\"755\"", Some(0o755)),
            ("\"0o600\"", Some(0o600)),
            ("420", None),
            ("644", None),
            ("\"8\"", None),
            ("\"\"", None),
            ("\"77777\"", None),
            ("-1", None),
            ("true", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        let problem = |text: &str| serde_json::from_str::<Mode>(text).unwrap_err().to_string();
        assert!(problem("644").contains("a string of octal digits such as \"0644\", not 644"));
        assert!(problem("-1").contains("not -1") && problem("\"9\"").contains("not \"9\""));
        assert_eq!(serde_json::to_string(&Mode(0o644)).unwrap(), "\"0644\"");
    }
}
