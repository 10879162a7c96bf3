//! `trl cp`: files between here and a session, in parts, so that size does not matter.

mod download;
mod local_dir;
mod progress;
mod upload;

use serde_json::json;
use trl_client::Client;
use trl_protocol::file::{FileEntry, FileKind, StatParams};
use trl_protocol::{Code, Fault, methods};

use crate::context::Context;
use crate::failure::{Failure, Result};
use progress::Progress;

/// Moved with one request.
const PART: u64 = 4 * 1024 * 1024;

/// Copy files between here and a session
///
/// One of SOURCE and TARGET is `SESSION:PATH`, as the session sees it; a relative PATH is relative to the
/// session's directory. An interrupted copy continues where it stopped if the same command is given
/// again. Symbolic links in directories are left out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Copy directories with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// `PATH`, or `SESSION:PATH`
    source: String,
    /// `SESSION:PATH`, or `PATH`
    target: String,
}

/// A path here, or in a session.
#[derive(Debug, PartialEq, Eq)]
enum End<'a> {
    Here(&'a str),
    There { session: &'a str, path: &'a str },
}

impl End<'_> {
    /// As with scp: what comes before the first colon is a session, unless it has a slash.
    fn parse(text: &str) -> End<'_> {
        match text.split_once(':') {
            Some((session, path)) if !session.is_empty() && !session.contains('/') => {
                End::There { session, path: if path.is_empty() { "." } else { path } }
            }
            _ => End::Here(text),
        }
    }
}

/// A session, by name or id, and how to ask about its files.
pub(super) struct There<'a> {
    client: &'a Client,
    session: &'a str,
}

impl There<'_> {
    /// What is at a path, a link itself; `None` if nothing is.
    async fn stat(&self, path: &str) -> Result<Option<FileEntry>> {
        self.ask(path, false).await
    }

    /// The same, but of what a link leads to. Hosts of older versions are only asked that about links.
    async fn target(&self, path: &str) -> Result<Option<FileEntry>> {
        match self.stat(path).await? {
            Some(entry) if entry.kind == FileKind::Symlink => self.ask(path, true).await,
            found => Ok(found),
        }
    }

    async fn ask(&self, path: &str, follow: bool) -> Result<Option<FileEntry>> {
        let params = StatParams { session_id: self.session.to_owned(), path: path.to_owned(), follow };
        match self.client.call::<methods::FileStat>(&params).await {
            Ok(entry) => Ok(Some(entry)),
            Err(trl_client::Error::Fault(fault)) if fault.code == Code::FileNotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut progress = Progress::new();
    match (End::parse(&args.source), End::parse(&args.target)) {
        (End::Here(from), End::There { session, path }) => {
            let there = There { client: &client, session };
            upload::copy(&there, from, path, args.recursive, &mut progress).await?;
        }
        (End::There { session, path }, End::Here(to)) => {
            let there = There { client: &client, session };
            download::copy(&there, path, to, args.recursive, &mut progress).await?;
        }
        (End::Here(_), End::Here(_)) => {
            return Err(Failure::usage("neither SOURCE nor TARGET is in a session")
                .hint("SESSION:PATH is; for a file here whose name has a colon, write ./NAME"));
        }
        (End::There { .. }, End::There { .. }) => {
            return Err(Failure::usage("both SOURCE and TARGET are in sessions")
                .hint("copy to here first, or run cp in a session"));
        }
    }
    let (files, bytes) = progress.done();
    if context.output.json {
        context.output.json(&json!({ "files": files, "bytes": bytes }))?;
    }
    Ok(0)
}

/// What the part of a file is called until it is whole: the same for the same source only.
fn part_name(name: &str, source: &str) -> String {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    let kept: String = name.chars().take(100).collect();
    format!(".{kept}.trl-part-{:016x}", hasher.finish())
}

/// The last name in a path.
fn base_name(path: &str) -> Option<&str> {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."))
}

/// The same code as for requests about files.
fn not_found(message: String) -> Failure {
    Fault::new(Code::FileNotFound, message).into()
}

fn is_directory(path: &str) -> Failure {
    Failure::usage(format!("{path:?} is a directory")).hint("-r copies it with everything in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_end_is_where() {
        for (text, expected) in [
            ("file", End::Here("file")),
            ("./a:b", End::Here("./a:b")),
            ("/a:b", End::Here("/a:b")),
            (":x", End::Here(":x")),
            ("s:file", End::There { session: "s", path: "file" }),
            ("s-00000001:/etc/x", End::There { session: "s-00000001", path: "/etc/x" }),
            ("s:", End::There { session: "s", path: "." }),
        ] {
            assert_eq!(End::parse(text), expected, "{text}");
        }
        assert_eq!((base_name("a/b/"), base_name("/"), base_name("..")), (Some("b"), None, None));
        assert_ne!(part_name("f", "1"), part_name("f", "2"));
    }
}
