//! Files as a session sees them, for clients that have no tools of their own for that: `read_file`, `write_file`,
//! `edit_file`, `list_files`, `file_info`, `move_file`, `remove_file`, `make_directory`. Offered as the set `files`.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::exec::Encoding;
use trl_protocol::file::{
    EditParams, EditReply, FileEntry, FileKind, ListParams, ListReply, MadeDir, MakeDirParams, Mode,
    MoveParams, Moved, ReadParams, ReadReply, RemoveParams, Removed, StatParams, WriteParams, WriteReply,
};
use trl_protocol::{Fault, Method, methods, quote};

use crate::fault;
use crate::report::cost;
use crate::toolbox::{Call, Entry, Hints, Spec};

/// Bytes of a file that one call shows unless it asks for another number, and at most: clients refuse a result of
/// more than 1 MiB, a byte may be six as JSON, and a result with fields has the text twice.
const SHOWN: u64 = 64_000;
const MOST_SHOWN: u64 = 80_000;
/// Bytes of a list as text and as fields, and what an entry has beside its path.
const LIST_BUDGET: usize = 600_000;
const ENTRY_COST: usize = 200;

pub(crate) fn all() -> Vec<Entry> {
    vec![
        Entry::of::<ReadFile>(),
        Entry::of::<WriteFile>(),
        Entry::of::<EditFile>(),
        Entry::of::<ListFiles>(),
        Entry::of::<FileInfo>(),
        Entry::of::<MoveFile>(),
        Entry::of::<RemoveFile>(),
        Entry::of::<MakeDirectory>(),
    ]
}

/// Asks in the session that is named, or the client's own.
async fn ask<M: Method>(
    call: &Call,
    session: Option<&str>,
    params: impl FnOnce(String) -> M::Params,
) -> Result<M::Reply, Fault> {
    let place = call.guest.place(session).await?;
    call.guest.client.call::<M>(&params(place.id.to_string())).await.map_err(fault::of)
}

macro_rules! tools {
    ($($tool:ident = $name:literal, $hints:expr, $args:ident => $answer:ty, $about:literal, $call:ident;)*) => {$(
        pub(crate) struct $tool;

        impl Spec for $tool {
            const NAME: &'static str = $name;
            const ABOUT: &'static str = $about;
            const HINTS: Hints = $hints;
            const OPEN_WORLD: bool = false;
            type Args = $args;
            type Answer = $answer;

            async fn call(args: $args, call: Call) -> Result<(String, $answer), Fault> {
                $call(args, call).await
            }
        }
    )*};
}

tools! {
    ReadFile = "read_file", Hints::ReadOnly, ReadArgs => ReadReply,
        "Read a text file as the session sees it: relative paths start at its directory.", read;
    WriteFile = "write_file", Hints::Destroys { idempotent: false }, WriteArgs => WriteReply,
        "Write a whole file, in one step.", write;
    EditFile = "edit_file", Hints::Destroys { idempotent: false }, EditArgs => EditReply,
        "Replace a text in a file. It must occur exactly once, unless `all`.", edit;
    ListFiles = "list_files", Hints::ReadOnly, ListArgs => ListReply,
        "List a directory.", list;
    FileInfo = "file_info", Hints::ReadOnly, PathArgs => FileEntry,
        "Kind, size, permissions and time of a file.", info;
    MoveFile = "move_file", Hints::Destroys { idempotent: false }, MoveArgs => Moved,
        "Rename or move a file or directory.", move_file;
    RemoveFile = "remove_file", Hints::Destroys { idempotent: true }, RemoveArgs => Removed,
        "Remove a file or directory.", remove;
    MakeDirectory = "make_directory", Hints::Adds { idempotent: true }, PathArgs => MadeDir,
        "Make a directory and those above it.", make_dir;
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathArgs {
    path: String,
    /// Default: your own
    #[serde(default)]
    session: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArgs {
    path: String,
    /// Byte to start at
    #[serde(default)]
    offset: u64,
    /// Bytes. Default 64000
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default)]
    session: Option<String>,
}

async fn read(args: ReadArgs, call: Call) -> Result<(String, ReadReply), Fault> {
    let limit = Some(args.limit.unwrap_or(SHOWN).min(MOST_SHOWN));
    let reply = ask::<methods::FileRead>(&call, args.session.as_deref(), |session_id| ReadParams {
        session_id,
        path: args.path,
        offset: args.offset,
        limit,
        encoding: Encoding::Utf8,
    })
    .await?;
    let mut text = reply.text.clone().unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut about = match reply.next_offset < reply.total_bytes {
        true => format!(
            "bytes {} to {} of {}; read on with offset={}",
            reply.offset, reply.next_offset, reply.total_bytes, reply.next_offset
        ),
        false if reply.offset > 0 => format!("bytes {} to the end", reply.offset),
        false => format!("{} bytes", reply.total_bytes),
    };
    if reply.lossy {
        about.push_str(", not all of them UTF-8");
    }
    Ok((format!("{text}[{about}]"), reply))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteArgs {
    path: String,
    content: String,
    /// Add to its end instead
    #[serde(default)]
    append: bool,
    /// Permissions, such as "0755"
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    session: Option<String>,
}

async fn write(args: WriteArgs, call: Call) -> Result<(String, WriteReply), Fault> {
    let reply = ask::<methods::FileWrite>(&call, args.session.as_deref(), |session_id| WriteParams {
        session_id,
        path: args.path,
        content: args.content,
        append: args.append,
        mode: args.mode,
        make_parents: true,
        ..WriteParams::default()
    })
    .await?;
    Ok((format!("[{} bytes written; the file has {}]", reply.bytes, reply.total_bytes), reply))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArgs {
    path: String,
    /// Text to replace, exactly as it is there
    old: String,
    new: String,
    /// Every occurrence
    #[serde(default)]
    all: bool,
    #[serde(default)]
    session: Option<String>,
}

async fn edit(args: EditArgs, call: Call) -> Result<(String, EditReply), Fault> {
    let reply = ask::<methods::FileEdit>(&call, args.session.as_deref(), |session_id| EditParams {
        session_id,
        path: args.path,
        old: args.old,
        new: args.new,
        all: args.all,
    })
    .await?;
    Ok((format!("[{} replaced]", reply.replaced), reply))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArgs {
    /// Default: the session's directory
    #[serde(default)]
    path: Option<String>,
    /// Levels of directories. Default 1
    #[serde(default)]
    depth: Option<u32>,
    /// Only names or paths that match, such as "**/*.rs"
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    session: Option<String>,
}

async fn list(args: ListArgs, call: Call) -> Result<(String, ListReply), Fault> {
    let reply = ask::<methods::FileList>(&call, args.session.as_deref(), |session_id| ListParams {
        session_id,
        path: args.path.unwrap_or_else(|| ".".to_owned()),
        depth: args.depth,
        glob: args.glob,
    })
    .await?;
    let reply = as_many_as_fit(reply);
    let mut lines: Vec<String> = reply.entries.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("(nothing)".to_owned());
    }
    if reply.truncated {
        lines.push("[there are more; name a directory below, or a glob]".to_owned());
    }
    Ok((lines.join("\n"), reply))
}

fn as_many_as_fit(reply: ListReply) -> ListReply {
    let all = reply.entries.len();
    let mut used = 0;
    let fits = |entry: &FileEntry| {
        used += ENTRY_COST + 2 * cost(&entry.path) + 2 * cost(entry.target.as_deref().unwrap_or_default());
        used <= LIST_BUDGET
    };
    let entries: Vec<FileEntry> = reply.entries.into_iter().take_while(fits).collect();
    ListReply { truncated: reply.truncated || entries.len() < all, entries }
}

async fn info(args: PathArgs, call: Call) -> Result<(String, FileEntry), Fault> {
    let reply = ask::<methods::FileStat>(&call, args.session.as_deref(), |session_id| StatParams {
        session_id,
        path: args.path,
        follow: false,
    })
    .await?;
    Ok((format!("{}, permissions {:04o}, changed {}", line(&reply), reply.mode.0, reply.modified_at), reply))
}

/// A path is anything that somebody could call a file.
fn line(entry: &FileEntry) -> String {
    let path = quote::inline(&entry.path);
    match (entry.kind, &entry.target) {
        (FileKind::Directory, _) => format!("{path}/"),
        (FileKind::Symlink, Some(target)) => format!("{path} -> {}", quote::inline(target)),
        (FileKind::Symlink, None) => format!("{path} (a symbolic link)"),
        (FileKind::File, _) => format!("{path} ({} bytes)", entry.bytes),
        (FileKind::Other, _) => format!("{path} (no regular file)"),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveArgs {
    from: String,
    to: String,
    /// Replace what is there
    #[serde(default)]
    overwrite: bool,
    #[serde(default)]
    session: Option<String>,
}

async fn move_file(args: MoveArgs, call: Call) -> Result<(String, Moved), Fault> {
    let reply = ask::<methods::FileMove>(&call, args.session.as_deref(), |session_id| MoveParams {
        session_id,
        from: args.from,
        to: args.to,
        overwrite: args.overwrite,
    })
    .await?;
    Ok((format!("[{} is {} now]", quote::inline(&reply.from), quote::inline(&reply.to)), reply))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveArgs {
    path: String,
    /// A directory with everything in it
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    session: Option<String>,
}

async fn remove(args: RemoveArgs, call: Call) -> Result<(String, Removed), Fault> {
    let reply = ask::<methods::FileRemove>(&call, args.session.as_deref(), |session_id| RemoveParams {
        session_id,
        path: args.path,
        recursive: args.recursive,
    })
    .await?;
    Ok((format!("[{} is removed]", quote::inline(&reply.path)), reply))
}

async fn make_dir(args: PathArgs, call: Call) -> Result<(String, MadeDir), Fault> {
    let reply = ask::<methods::FileMakeDir>(&call, args.session.as_deref(), |session_id| MakeDirParams {
        session_id,
        path: args.path,
        parents: true,
    })
    .await?;
    Ok((format!("[{} is there]", quote::inline(&reply.path)), reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_where_clients_would_refuse_it() {
        let entry = |n: usize| FileEntry {
            path: format!("{n:0>40}"),
            kind: FileKind::File,
            bytes: 1,
            mode: Mode(0o600),
            modified_at: "2026-01-01T00:00:00.000Z".to_owned(),
            target: None,
        };
        let list = |count| ListReply { entries: (0..count).map(entry).collect(), truncated: false };
        assert!(!as_many_as_fit(list(1000)).truncated);
        let cut = as_many_as_fit(list(10_000));
        assert!(cut.truncated);
        let lines: Vec<String> = cut.entries.iter().map(line).collect();
        let size = serde_json::to_string(&(lines.join("\n"), &cut)).unwrap().len();
        assert!((200_000..1_000_000).contains(&size), "{size}");
    }
}
