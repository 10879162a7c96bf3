//! `trl top`: the sessions and what runs in them, live.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use trl_client::Client;
use trl_protocol::exec::{ExecInfo, ExecState, ListParams, Stream};
use trl_protocol::methods;
use trl_protocol::session::{self, SessionInfo};
use unicode_width::UnicodeWidthStr as _;

use super::ls;
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::frame::{self, Style};
use crate::human;
use crate::output::{self, Paint, Streams};
use crate::raw_terminal::{EndSignals, RawTerminal, WindowChanges};
use crate::table::{self, Keep};

/// Show sessions and their commands, live
///
/// `q` leaves, the arrows scroll. In a pipe, or with `--json`, shows them once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds between updates
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    delay: f64,
}

/// What there is at one moment.
#[derive(Debug, Serialize)]
struct Moment {
    sessions: Vec<SessionInfo>,
    /// Commands that run or wait.
    execs: Vec<ExecInfo>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let moment = look(&client).await?;
    if context.output.json {
        context.output.json(&moment)?;
        return Ok(0);
    }
    if !RawTerminal::is_there() {
        let mut table = table::Table::new(&HEAD, HEAD[COLUMNS - 1], Keep::Start);
        for row in rows(&moment) {
            table.row(row.cells.to_vec());
        }
        context.output.text(&table.render(output::terminal_width(), context.output.paint))?;
        return Ok(0);
    }
    let delay = Duration::from_secs_f64(args.delay.clamp(0.1, 3600.0));
    let mut changes = WindowChanges::listen()?;
    let mut signals = EndSignals::listen()?;
    let mut terminal = RawTerminal::enter()?;
    let mut streams = Streams::new();
    let other_screen = terminal.enter_other_screen();
    streams.write(Stream::Stdout, other_screen).await?;
    let mut top = Top { client: &client, moment, first: 0, streams, paint: context.output.paint };
    let left = tokio::select! {
        left = top.live(delay, &mut changes) => left.map(|()| 0),
        status = signals.status() => Ok(status),
    };
    top.streams.settle().await;
    drop(terminal);
    left
}

async fn look(client: &Client) -> Result<Moment> {
    let sessions = client.call::<methods::SessionList>(&session::ListParams::default()).await?.sessions;
    let mut execs =
        client.call::<methods::ExecList>(&ListParams { session_id: None, own: false }).await?.execs;
    execs.retain(|exec| exec.state != ExecState::Finished);
    Ok(Moment { sessions, execs })
}

struct Top<'c> {
    client: &'c Client,
    moment: Moment,
    /// The first row that shows.
    first: usize,
    streams: Streams,
    paint: Paint,
}

impl Top<'_> {
    async fn live(&mut self, delay: Duration, changes: &mut WindowChanges) -> Result<()> {
        let client = self.client;
        let mut stdin = tokio::io::stdin();
        let mut keys = [0; 64];
        let later = || async move {
            tokio::time::sleep(delay).await;
            look(client).await
        };
        let mut next = pin!(later());
        loop {
            self.draw().await?;
            // Whatever the daemon does meanwhile, a key is heard.
            tokio::select! {
                read = stdin.read(&mut keys) => {
                    let read = read.map_err(|error| Failure::system("reading the terminal", error))?;
                    if read == 0 || !self.heed(&keys[..read]) {
                        return Ok(());
                    }
                }
                () = changes.next() => {}
                moment = next.as_mut() => {
                    self.moment = moment?;
                    next.set(later());
                }
            }
        }
    }

    /// False where a key says to leave.
    fn heed(&mut self, keys: &[u8]) -> bool {
        let last = rows(&self.moment).len().saturating_sub(1);
        for by in scrolls(keys) {
            let Some(by) = by else { return false };
            self.first = self.first.saturating_add_signed(by).min(last);
        }
        true
    }

    fn draw(&mut self) -> impl Future<Output = Result<()>> {
        let (rows, cols) = RawTerminal::size().unwrap_or((24, 80));
        let drawn = screen((rows, cols), &self.moment, self.first, self.paint);
        let streams = &mut self.streams;
        async move { streams.write(Stream::Stdout, drawn.as_bytes()).await }
    }
}

const PAGE: isize = 10;
/// How far each key scrolls; the ones that leave do not.
const KEYS: [(&[u8], Option<isize>); 13] = [
    (b"\x1b[A", Some(-1)),
    (b"\x1bOA", Some(-1)),
    (b"k", Some(-1)),
    (b"\x1b[B", Some(1)),
    (b"\x1bOB", Some(1)),
    (b"j", Some(1)),
    (b"\x1b[5~", Some(-PAGE)),
    (b"\x1b[6~", Some(PAGE)),
    (b" ", Some(PAGE)),
    (b"q", None),
    (b"Q", None),
    (b"\x03", None),
    (b"\x04", None),
];

/// What the keys mean, however many came at once.
fn scrolls(mut keys: &[u8]) -> Vec<Option<isize>> {
    let mut meant = Vec::new();
    while !keys.is_empty() {
        let known = KEYS.iter().find(|(key, _)| keys.starts_with(key));
        meant.extend(known.map(|(_, means)| *means));
        // The escape key, and not the beginning of another.
        meant.extend((keys == b"\x1b").then_some(None));
        keys = &keys[known.map_or(1, |(key, _)| key.len())..];
    }
    meant
}

/// A line of the table: a session, or a command below it.
struct TableRow {
    cells: [String; COLUMNS],
    style: Style,
}

const COLUMNS: usize = 7;
const HEAD: [&str; COLUMNS] = ["SESSION", "STATE", "TIME", "CPU", "MEMORY", "OUTPUT", "COMMAND / DIRECTORY"];

fn rows(moment: &Moment) -> Vec<TableRow> {
    let mut rows = Vec::new();
    let home = human::home_dir();
    for session in &moment.sessions {
        let name = session.name.clone().unwrap_or_else(|| session.session_id.to_string());
        let path = human::path(&session.working_dir, home.as_deref());
        let style = if session.running.is_some() { Style::Green } else { Style::Plain };
        let age = human::age_of(&session.created_at);
        let usage = session.confinement.usage.unwrap_or_default();
        let cpu = usage.cpu_s.map(human::duration).unwrap_or_default();
        let memory = usage.memory_bytes.map(human::bytes).unwrap_or_default();
        rows.push(TableRow {
            cells: [name, ls::state(session), age, cpu, memory, String::new(), path],
            style,
        });
        for exec in moment.execs.iter().filter(|exec| exec.session_id == session.session_id) {
            rows.push(command(exec));
        }
    }
    rows
}

fn command(exec: &ExecInfo) -> TableRow {
    let (state, style) = match (&exec.waiting_for_input, exec.state) {
        (Some(prompt), _) if prompt.is_empty() => ("waits".to_owned(), Style::Yellow),
        (Some(prompt), _) => (format!("waits: {prompt}"), Style::Yellow),
        (None, ExecState::Queued) => ("queued".to_owned(), Style::Plain),
        (None, ExecState::Running | ExecState::Finished) if exec.background => {
            ("background".to_owned(), Style::Plain)
        }
        (None, ExecState::Running | ExecState::Finished) => ("running".to_owned(), Style::Plain),
    };
    let age = exec.started_at.as_deref().map(human::age_of).unwrap_or_default();
    let text = exec.command.replace(char::is_control, " ");
    let output = human::bytes(exec.stdout_bytes + exec.stderr_bytes);
    let id = format!("  {}", exec.exec_id);
    TableRow { cells: [id, state, age, String::new(), String::new(), output, text], style }
}

/// Of the columns before the last, which takes what is left.
const WIDTHS: [usize; COLUMNS - 1] = [18, 14, 6, 7, 9, 9];

/// Title, table and help, as bytes for a terminal of this size.
fn screen((height, width): (u16, u16), moment: &Moment, first: usize, paint: Paint) -> String {
    let running = moment.execs.iter().filter(|exec| exec.state == ExecState::Running).count();
    let title =
        format!("{}, {}", counted(moment.sessions.len(), "session"), counted(running, "running command"));
    let mut lines = vec![(Style::Plain, title), (Style::Bold, line(&HEAD.map(str::to_owned)))];
    let room = usize::from(height).saturating_sub(lines.len() + 1);
    lines.extend(rows(moment).iter().skip(first).take(room).map(|row| {
        let style = if paint.0 { row.style } else { Style::Plain };
        (style, line(&row.cells))
    }));
    lines.resize(usize::from(height).saturating_sub(1), (Style::Plain, String::new()));
    lines.push((Style::Plain, "q leaves".to_owned()));
    frame::bytes(&lines, width, height)
}

fn line(cells: &[String; COLUMNS]) -> String {
    let [before @ .., last] = cells;
    let clean = |cell: &String| cell.replace(char::is_control, "·");
    let mut line = String::new();
    for (cell, width) in before.iter().zip(WIDTHS) {
        let shown = table::fit(&clean(cell), width, Keep::Start);
        let padding = width - shown.width() + 1;
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line + &clean(last)
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Moment {
        let session = serde_json::json!({
            "session_id": "s-00000001", "name": "build", "shell": "bash", "working_dir": "/src", "state": "running",
            "env_keys": [], "created_at": "2020-01-01T00:00:00Z", "last_activity": "2020-01-01T00:00:00Z",
            "command_count": 1, "timeout_s": 60.0, "idle_timeout_s": 0.0, "pid": 2, "host_pid": 1, "restarts": 0,
            "tty": false, "running": "e-00000001-1", "queued": 0, "usage": {"cpu_s": 2.0, "memory_bytes": 3145728}
        });
        let exec = serde_json::json!({
            "exec_id": "e-00000001-1", "session_id": "s-00000001", "command": "make\nall", "state": "running",
            "background": false, "tty": true, "created_at": "2020-01-01T00:00:00Z", "stdout_bytes": 2048,
            "stderr_bytes": 0, "stdout_dropped_bytes": 0, "stderr_dropped_bytes": 0, "waiting_for_input": "Name:"
        });
        Moment {
            sessions: vec![serde_json::from_value(session).unwrap()],
            execs: vec![serde_json::from_value(exec).unwrap()],
        }
    }

    fn seen(first: usize, paint: Paint) -> (String, String) {
        let bytes = screen((6, 100), &moment(), first, paint);
        let mut emulator = trl_testkit::emulator(6, 100);
        emulator.process(bytes.as_bytes());
        (trl_testkit::seen(&emulator), bytes)
    }

    #[test]
    fn what_a_person_sees() {
        for paint in [Paint(true), Paint(false)] {
            let (text, bytes) = seen(0, paint);
            for expected in [
                "1 session, 1 running command\nSESSION ",
                "build ",
                "\n  e-00000001-1 ",
                " waits: Name: ",
                " 3 MiB ",
                " 2 KiB ",
                " make all\n",
                "q leaves",
            ] {
                assert!(text.contains(expected), "{expected}: {text}");
            }
            assert_eq!(bytes.contains("\x1b[0;33m"), paint.0, "{bytes:?}");
        }
    }

    #[test]
    fn keys_may_come_together() {
        assert_eq!(scrolls(b"\x1b[Bjq"), [Some(1), Some(1), None]);
        assert_eq!(scrolls(b"x\x1b[6~\x1b"), [Some(PAGE), None]);
        assert_eq!(scrolls(b"\x1b[1;5C"), []);
    }

    #[test]
    fn rows_scroll() {
        let (text, _) = seen(1, Paint(false));
        assert!(!text.contains("build") && text.contains("e-00000001-1"), "{text}");
    }
}
