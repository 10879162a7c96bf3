//! Something in the output of a command, wherever its pieces are torn apart.

//!
//! `^` and `$` are ends of lines, which end in `\n`, `\r` or both. The present end of the output is one if a line has
//! begun there and the stream has been quiet for a moment: a prompt that waits. The same moment is given to an
//! expression that could match more with what comes next.

use std::time::Duration;

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use tokio::time::Instant;
use trl_protocol::Fault;
use trl_protocol::exec::{LogUntil, Matched, Offsets, Stream};
use trl_protocol::wire::{FromHost, ToHost};

use super::Came;
use crate::backend::LostSession;
use crate::link::Item;
use crate::ops::exec::info;
use crate::session::{Session, unexpected};

/// How far back a match may begin before what arrives.
const WINDOW: usize = 64 * 1024;
/// After so long a silence the present end of a stream is taken as it is.
const QUIET: Duration = Duration::from_millis(100);
/// Most of a match that is told.
const TOLD: usize = 4096;

/// What is looked for, and what was seen of each stream.
#[derive(Debug)]
pub(super) struct Search {
    pattern: Regex,
    /// A text is found or not; an expression may match more when more has come.
    may_grow: bool,
    only: Option<Stream>,
    /// Matches begin here or later, in each stream.
    from: [u64; 2],
    seen: [RecentBytes; 2],
}

/// The last bytes of a stream.
#[derive(Debug)]
struct RecentBytes {
    bytes: Vec<u8>,
    /// Where in the stream they begin.
    offset: u64,
    /// They begin in the middle of what was seen: the first one only says what lies before the second.
    is_cut: bool,
    /// When the last ones came.
    came_at: Instant,
}

/// A match, and whether it could still become longer or turn out not to be one.
#[derive(Debug, PartialEq)]
struct Hit {
    index: u64,
    offset: u64,
    end_offset: u64,
    text: String,
    at_end: bool,
}

impl Search {
    pub(super) fn new(log: &LogUntil, patterns: &[String]) -> Result<Search, String> {
        let built = if log.regex {
            let syntax = syntax::Config::new().utf8(false).multi_line(true).crlf(true);
            Regex::builder().configure(Regex::config().utf8_empty(false)).syntax(syntax).build_many(patterns)
        } else {
            Regex::new_many(&patterns.iter().map(|text| escape(text)).collect::<Vec<_>>())
        };
        let pattern = built.map_err(|error| {
            let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
            format!("no regular expression: {why}")
        })?;
        let from = match log.from_offsets {
            Some(Offsets { stdout, stderr }) => [stdout, stderr],
            None => [log.from_offset; 2],
        };
        Ok(Search {
            pattern,
            may_grow: log.regex,
            only: log.stream,
            from,
            seen: [RecentBytes::from(0), RecentBytes::from(0)],
        })
    }

    /// Where reading begins: one byte earlier, which says whether a line begins at `from`.
    fn begin(&self, stream: Stream) -> u64 {
        self.from[stream.index()].saturating_sub(1)
    }

    /// Takes more of a stream in. After a gap nothing goes on.
    fn push(&mut self, stream: Stream, offset: u64, bytes: &[u8]) {
        let seen = &mut self.seen[stream.index()];
        if seen.end() != offset {
            *seen = RecentBytes::from(offset);
        }
        let excess = seen.bytes.len().saturating_sub(WINDOW);
        seen.bytes.drain(..excess);
        seen.offset += excess as u64;
        seen.is_cut |= excess > 0;
        seen.bytes.extend_from_slice(bytes);
        seen.came_at = Instant::now();
    }

    fn find(&self, stream: Stream, is_over: bool) -> Option<Hit> {
        if self.only.is_some_and(|only| only != stream) {
            return None;
        }
        let seen = &self.seen[stream.index()];
        let end = seen.bytes.len();
        // The end of what has come is no end of a line as long as more may come: one byte
        // beyond it, outside of the search, says so.
        let mut haystack = seen.bytes.clone();
        if !is_over {
            haystack.push(0);
        }
        let begin = usize::try_from(self.from[stream.index()].saturating_sub(seen.offset)).unwrap_or(end);
        let begin = begin.max(usize::from(seen.is_cut)).min(end);
        let found = self.pattern.search(&Input::new(&haystack).span(begin..end).anchored(Anchored::No))?;
        let text = &haystack[found.range()];
        let told = String::from_utf8_lossy(&text[..text.len().min(TOLD)]).into_owned();
        let at_end = self.may_grow && !is_over && found.end() == end;
        Some(Hit {
            index: found.pattern().as_u64(),
            offset: seen.offset + found.start() as u64,
            end_offset: seen.offset + found.end() as u64,
            text: told,
            at_end,
        })
    }

    fn any(&self, is_over: bool) -> Option<(Stream, Hit)> {
        Stream::BOTH.into_iter().find_map(|stream| Some((stream, self.find(stream, is_over)?)))
    }

    fn came(&self, (stream, hit): (Stream, Hit)) -> Came {
        let Hit { index, offset, end_offset, text, at_end: _ } = hit;
        let mut next = self.from;
        next[stream.index()] = end_offset;
        let next_offsets = Offsets { stdout: next[0], stderr: next[1] };
        Came::Matched(Matched::Log { stream, offset, end_offset, index, text, next_offsets })
    }

    /// All that comes has come.
    fn over(&self) -> Came {
        self.any(true).map_or(Came::Over, |hit| self.came(hit))
    }

    /// A match that nothing can change any more.
    fn certain(&self) -> Option<(Stream, Hit)> {
        let find = |stream| Some((stream, self.find(stream, false).filter(|hit| !hit.at_end)?));
        Stream::BOTH.into_iter().find_map(find)
    }

    /// A match if nothing more comes.
    fn at_rest(&self) -> Option<(Stream, Hit)> {
        if !self.may_grow {
            return None;
        }
        // A line that has ended is followed by no empty one as long as nothing begins there.
        let is_open = |stream: Stream| {
            self.seen[stream.index()].bytes.last().is_some_and(|last| !b"\r\n".contains(last))
        };
        Stream::BOTH.into_iter().find_map(|stream| Some((stream, self.find(stream, is_open(stream))?)))
    }
}

impl RecentBytes {
    fn from(offset: u64) -> RecentBytes {
        RecentBytes { bytes: Vec::new(), offset, is_cut: false, came_at: Instant::now() }
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        // Not all punctuation: `\<` and `\>` would be the ends of a word.
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// From the first byte that is asked for and kept, so what was printed before counts too.
pub(super) async fn wait(session: &Session, exec: u64, mut search: Search) -> Result<Came, Fault> {
    let [stdout_offset, stderr_offset] = Stream::BOTH.map(|stream| search.begin(stream));
    let attach = |req| ToHost::Attach { req, exec, stdout_offset, stderr_offset };
    let mut flow = session.link.flow(attach).await?;
    let mut candidate: Option<(Stream, Hit)> = None;
    loop {
        let quiet_at = candidate.as_ref().map(|(stream, _)| search.seen[stream.index()].came_at + QUIET);
        let item = match quiet_at {
            None => Some(flow.next().await?),
            Some(quiet_at) if quiet_at <= Instant::now() => None,
            Some(quiet_at) => tokio::time::timeout_at(quiet_at, flow.next()).await.ok().transpose()?,
        };
        let Some(item) = item else {
            let Some((stream, hit)) = candidate.take() else { continue };
            let seen = &mut search.seen[stream.index()];
            // Output that is on its way is no silence.
            if length(session, exec, stream).await? <= seen.end() {
                return Ok(search.came((stream, hit)));
            }
            seen.came_at = Instant::now();
            candidate = Some((stream, hit));
            continue;
        };
        match item {
            Item::Output(range) => {
                search.push(range.stream, range.offset, &range.bytes);
                flow.accepted(range.bytes);
                if let Some(hit) = search.certain() {
                    return Ok(search.came(hit));
                }
                candidate = search.at_rest();
            }
            Item::Message(FromHost::Done { .. }) => return Ok(search.over()),
            // Nothing can match across what is lost.
            Item::Message(FromHost::Gap { stream, to, .. }) => {
                search.push(stream, to, &[]);
                candidate = search.at_rest();
            }
            Item::Message(FromHost::Started { .. } | FromHost::Waiting { .. }) => {}
            Item::Message(FromHost::Fault { fault, .. }) => return Err(fault),
            Item::Message(other) => return Err(unexpected(session.id, &other)),
        }
    }
}

/// How much the command has written to a stream.
async fn length(session: &Session, exec: u64, stream: Stream) -> Result<u64, Fault> {
    let info = info::of(session, exec, &session.exec_id(exec).to_string()).await?;
    Ok(match stream {
        Stream::Stdout => info.stdout_bytes,
        Stream::Stderr => info.stderr_bytes,
    })
}

/// In what a lost session has left.
pub(super) fn look(lost: &LostSession, exec: u64, mut search: Search) -> Result<Came, Fault> {
    for stream in Stream::BOTH {
        let mut offset = search.begin(stream);
        loop {
            let range = lost.range(exec, stream, offset, WINDOW as u64)?;
            if range.bytes.is_empty() {
                break;
            }
            offset = range.offset + range.bytes.len() as u64;
            search.push(stream, range.offset, &range.bytes);
            if let Some(hit) = search.find(stream, false).filter(|hit| !hit.at_end) {
                return Ok(search.came((stream, hit)));
            }
        }
    }
    Ok(search.over())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(regex: bool, stream: Option<Stream>, from_offset: u64) -> LogUntil {
        LogUntil { pattern: None, patterns: Vec::new(), regex, stream, from_offset, from_offsets: None }
    }

    fn search(pattern: &str, regex: bool) -> Search {
        Search::new(&until(regex, None, 0), &[pattern.to_owned()]).unwrap()
    }

    /// The first match while the pieces come, then at the end.
    fn found(pattern: &str, regex: bool, pieces: &[&str]) -> Option<(usize, u64, String)> {
        let mut search = search(pattern, regex);
        let mut offset = 0;
        for (number, piece) in pieces.iter().enumerate() {
            search.push(Stream::Stdout, offset, piece.as_bytes());
            offset += piece.len() as u64;
            if let Some((_, hit)) = search.any(false).filter(|(_, hit)| !hit.at_end) {
                return Some((number, hit.offset, hit.text));
            }
        }
        search.any(true).map(|(_, hit)| (pieces.len(), hit.offset, hit.text))
    }

    #[test]
    fn patterns_are_found_wherever_the_pieces_are_torn() {
        let hit = |number, offset, text: &str| Some((number, offset, text.to_owned()));
        assert_eq!(found("ready", false, &["x re", "ad", "y\n"]), hit(2, 2, "ready"));
        assert_eq!(found("ready", false, &["already\n"]), hit(0, 2, "ready"));
        assert_eq!(found("a.c", false, &["abc a.c"]), hit(0, 4, "a.c"));
        assert_eq!(found("[x]*\\d", false, &["[x]*\\d"]), hit(0, 0, "[x]*\\d"));
        assert_eq!(found(">>> <a-b> #&~", false, &["x >>> <a-b> #&~"]), hit(0, 2, ">>> <a-b> #&~"));
        assert_eq!(found("€ é", false, &["1 € ", "é"]), hit(1, 2, "€ é"));
        assert_eq!(found("port \\d+", true, &["port 80", "80\n"]), hit(1, 0, "port 8080"));
        assert_eq!(found("port \\d+", true, &["port 80", "80"]), hit(2, 0, "port 8080"));
        assert_eq!(found("^ready$", true, &["ready", "ing\n", "ready\n"]), hit(2, 9, "ready"));
        assert_eq!(found("^ready$", true, &["x\nready"]), hit(1, 2, "ready"));
        assert_eq!(found("^ready$", true, &["x\r\nready", "\r", "\n"]), hit(1, 3, "ready"));
        assert_eq!(found("^y.*$", true, &["x\r\n\r\nyes\r\n"]), hit(0, 5, "yes"));
        assert_eq!(found("one\ntwo", true, &["one\n", "two\n"]), hit(1, 0, "one\ntwo"));
        assert_eq!(found("(?i)LISTENING", true, &["now listening on\n"]), hit(0, 4, "listening"));
        assert_eq!(found("never", false, &["nev", " er"]), None);
    }

    #[test]
    fn the_first_of_several_patterns_is_told_from_an_offset_on() {
        let patterns = ["b+$".to_owned(), "^a".to_owned(), "c".to_owned()];
        let text = b"abb\nab c\n";
        let from = |offset: u64| {
            let mut search = Search::new(&until(true, None, offset), &patterns).unwrap();
            let begin = search.begin(Stream::Stdout);
            search.push(Stream::Stdout, begin, &text[begin as usize..]);
            search.any(true).map(|(_, hit)| (hit.index, hit.offset, hit.end_offset))
        };
        assert_eq!(from(0), Some((1, 0, 1)));
        // No line begins in the middle of one.
        assert_eq!(from(1), Some((0, 1, 3)));
        assert_eq!(from(2), Some((0, 2, 3)));
        assert_eq!(from(4), Some((1, 4, 5)));
        assert_eq!(from(5), Some((2, 7, 8)));
        assert_eq!(from(8), None);
        assert_eq!(from(text.len() as u64), None);
    }

    #[test]
    fn a_line_that_has_begun_ends_where_nothing_more_comes() {
        let rests = |pattern: &str, pieces: &[&str]| {
            let mut search = search(pattern, true);
            let mut offset = 0;
            for piece in pieces {
                search.push(Stream::Stdout, offset, piece.as_bytes());
                offset += piece.len() as u64;
                assert_eq!(search.certain(), None, "{pattern} {pieces:?}");
            }
            search.at_rest().map(|(_, hit)| (hit.offset, hit.end_offset))
        };
        assert_eq!(rests("^>>> $", &["Python\r\n", ">>> "]), Some((8, 12)));
        assert_eq!(rests("[$#] $", &["user", "$ "]), Some((4, 6)));
        assert_eq!(rests("^rea$", &["rea", "dy"]), None);
        assert_eq!(rests("port \\d+", &["port 80"]), Some((0, 7)));
        // An empty line is one that has an end.
        assert_eq!(rests("^$", &["one\n"]), None);
        assert_eq!(rests("^\\s*$", &["one\r\n"]), None);
    }

    #[test]
    fn what_is_far_back_is_forgotten_and_a_gap_joins_nothing() {
        let mut far = search("b", false);
        far.push(Stream::Stdout, 0, &vec![b'a'; 3 * WINDOW]);
        far.push(Stream::Stdout, 3 * WINDOW as u64, b"b");
        assert_eq!(far.any(false).map(|(_, hit)| hit.offset), Some(3 * WINDOW as u64));
        let mut long = search("^b", true);
        long.push(Stream::Stdout, 0, &vec![b'b'; 3 * WINDOW]);
        long.from = [1, 0];
        long.push(Stream::Stdout, 3 * WINDOW as u64, b"b");
        assert_eq!(long.any(true), None, "no line begins where a longer one was cut");
        let mut torn = search("ab", false);
        torn.push(Stream::Stdout, 0, b"a");
        torn.push(Stream::Stdout, 10, b"b");
        assert_eq!(torn.any(true), None);
    }

    #[test]
    fn each_stream_goes_on_from_its_own_place() {
        let from_offsets = Some(Offsets { stdout: 3, stderr: 0 });
        let log = LogUntil { from_offsets, ..until(false, None, 0) };
        let mut search = Search::new(&log, &["x".to_owned()]).unwrap();
        assert_eq!(Stream::BOTH.map(|stream| search.begin(stream)), [2, 0]);
        search.push(Stream::Stdout, 2, b"x-");
        search.push(Stream::Stderr, 0, b" x");
        let next_offsets = Offsets { stdout: 3, stderr: 2 };
        let told = Matched::Log {
            stream: Stream::Stderr,
            offset: 1,
            end_offset: 2,
            index: 0,
            text: "x".to_owned(),
            next_offsets,
        };
        assert!(matches!(search.over(), Came::Matched(matched) if matched == told));
    }

    #[test]
    fn one_stream_can_be_meant_alone_and_a_bad_expression_is_told() {
        let mut search = Search::new(&until(false, Some(Stream::Stderr), 0), &["x".to_owned()]).unwrap();
        search.push(Stream::Stdout, 0, b"x");
        assert_eq!(search.any(true), None);
        search.push(Stream::Stderr, 0, b"x");
        assert!(search.any(true).is_some());
        assert!(Search::new(&until(true, None, 0), &["(".to_owned()]).unwrap_err().contains("unclosed"));
    }
}
