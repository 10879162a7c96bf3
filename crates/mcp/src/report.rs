//! What is told of a command: text that a model reads well, and the same as fields.

use schemars::JsonSchema;
use serde::Serialize;
use trl_protocol::exec::{ExecInfo, ExecState, Outcome};
use trl_protocol::{ExecId, quote};

use crate::plain;
use trl_client::{Cut, HeadTail};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Queued,
    Running,
    /// It asks for something and reads from its terminal.
    Waiting,
    Finished,
}

/// The structured content of every tool that tells of a command.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Report {
    pub(crate) session: String,
    pub(crate) exec_id: String,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) timed_out: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdout_cut: Option<Cut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stderr_cut: Option<Cut>,
    /// Offset after the last byte shown.
    pub(crate) stdout_next: u64,
    pub(crate) stderr_next: u64,
    /// What it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// What it was waited for, and what came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matched: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// How far a command has come.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    Finished(Box<Outcome>),
    Waiting { prompt: String },
    Running,
    Queued,
}

impl Progress {
    pub(crate) fn of(info: &ExecInfo) -> Progress {
        match (&info.outcome, &info.waiting_for_input, info.state) {
            (Some(end), _, _) => Progress::Finished(Box::new(Outcome {
                exit_code: end.exit_code,
                signal: end.signal.clone(),
                duration_ms: end.duration_ms,
                duration_us: end.duration_us,
                timed_out: end.timed_out,
                cancelled: end.cancelled,
                stdout_bytes: info.stdout_bytes,
                stderr_bytes: info.stderr_bytes,
                working_dir: end.working_dir.clone(),
                limit: end.limit,
                syntax_error: end.syntax_error,
                shell_ended: end.shell_ended,
                shell_replaced: end.shell_replaced,
                notes: end.notes.clone(),
            })),
            (None, Some(prompt), _) => Progress::Waiting { prompt: prompt.clone() },
            (None, None, ExecState::Queued) => Progress::Queued,
            (None, None, ExecState::Running | ExecState::Finished) => Progress::Running,
        }
    }
}

/// A report and the text beside it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) report: Report,
}

/// Everything that a report is made of.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) session: String,
    pub(crate) exec_id: ExecId,
    pub(crate) progress: Progress,
    pub(crate) streams: [HeadTail; 2],
    /// Escape sequences stay.
    pub(crate) ansi: bool,
    pub(crate) matched: Option<String>,
    pub(crate) notes: Vec<String>,
}

impl Facts {
    pub(crate) fn told(self) -> Told {
        let Facts { session, exec_id, progress, streams, ansi, matched, mut notes } = self;
        let exec_id = exec_id.to_string();
        let [next_out, next_err] = [streams[0].end(), streams[1].end()];
        let [cut_out, cut_err] = [streams[0].cut(), streams[1].cut()];
        let [stdout, stderr] = streams.map(HeadTail::texts);
        let (state, outcome, prompt) = match progress {
            Progress::Finished(outcome) => (State::Finished, Some(outcome), None),
            Progress::Waiting { prompt } => (State::Waiting, None, Some(prompt)),
            Progress::Running => (State::Running, None, None),
            Progress::Queued => (State::Queued, None, None),
        };
        if let Some(outcome) = &outcome {
            notes.extend(outcome.notes.iter().cloned());
        }
        let joined = |(head, tail): &(String, String), cut: Option<Cut>, plain: bool| {
            let clean = |text: &str| if plain { plain::text(text) } else { text.to_owned() };
            match cut {
                Some(cut) => format!("{}\n[{} bytes cut]\n{}", clean(head), cut.bytes, clean(tail)),
                None => clean(head),
            }
        };
        let report = Report {
            session,
            state,
            exit_code: outcome.as_ref().and_then(|outcome| outcome.exit_code),
            signal: outcome.as_ref().and_then(|outcome| outcome.signal.clone()),
            timed_out: outcome.as_ref().is_some_and(|outcome| outcome.timed_out),
            cancelled: outcome.as_ref().is_some_and(|outcome| outcome.cancelled),
            duration_ms: outcome.as_ref().map(|outcome| outcome.duration_ms),
            cwd: outcome.map(|outcome| outcome.working_dir),
            stdout: fitting(joined(&stdout, cut_out, !ansi), FIELD_BUDGET, left_out),
            stderr: fitting(joined(&stderr, cut_err, !ansi), FIELD_BUDGET, left_out),
            stdout_cut: cut_out,
            stderr_cut: cut_err,
            stdout_next: next_out,
            stderr_next: next_err,
            prompt,
            matched,
            notes,
            exec_id,
        };
        let text = text(&report);
        Told { text, report }
    }
}

/// Of one stream as JSON. Official clients refuse an event of more than 1 MiB; a result holds two
/// streams, each as text and perhaps as a field.
const FIELD_BUDGET: usize = 220_000;

fn left_out(bytes: usize) -> String {
    format!("{bytes} bytes left out: too much for one result; output reads them in parts")
}

/// Bytes of a text as JSON.
pub(crate) fn cost(text: &str) -> usize {
    text.chars().map(cost_of_one).sum()
}

fn cost_of_one(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c.is_control() => 6,
        c => c.len_utf8(),
    }
}

/// The text, or its head and tail if it would be too long as JSON; `about` says what is missing.
pub(crate) fn fitting(text: String, budget: usize, about: impl Fn(usize) -> String) -> String {
    if cost(&text) <= budget {
        return text;
    }
    let within = |cost_of: &mut usize, c: char| {
        *cost_of += cost_of_one(c);
        (*cost_of <= budget / 2).then_some(c.len_utf8())
    };
    let head: usize = text.chars().scan(0, within).sum();
    let tail: usize = text.chars().rev().scan(0, within).sum();
    let (head, left_out, tail) = (&text[..head], text.len() - head - tail, &text[text.len() - tail..]);
    format!("{head}\n[{}]\n{tail}", about(left_out))
}

fn text(report: &Report) -> String {
    let (stdout, stderr) = (report.stdout.as_str(), report.stderr.as_str());
    let mut text = String::new();
    if !stdout.is_empty() {
        ended_line(&mut text, stdout);
    }
    if !stderr.is_empty() {
        ended_line(&mut text, "[stderr]");
        ended_line(&mut text, stderr);
    }
    if stdout.is_empty() && stderr.is_empty() {
        ended_line(&mut text, "(no output)");
    }
    for (stream, cut) in [("stdout", report.stdout_cut), ("stderr", report.stderr_cut)] {
        if let Some(Cut { offset, bytes }) = cut {
            ended_line(
                &mut text,
                &format!(
                    "[{bytes} bytes of {stream} are cut above; to read them: output(exec_id=\"{}\", stream=\"{stream}\", offset={offset})]",
                    report.exec_id
                ),
            );
        }
    }
    for note in &report.notes {
        ended_line(&mut text, &format!("[note: {}]", quote::inline(note)));
    }
    if let Some(matched) = &report.matched {
        ended_line(&mut text, &format!("[{matched}]"));
    }
    text.push_str(&status(report));
    text
}

fn ended_line(text: &mut String, more: &str) {
    text.push_str(more);
    if !more.ends_with('\n') {
        text.push('\n');
    }
}

fn status(report: &Report) -> String {
    let id = &report.exec_id;
    match report.state {
        State::Finished => format!("[{}]", ending(report)),
        State::Waiting => format!(
            "[waiting for input: {:?}; answer with input(exec_id=\"{id}\", text=…) or end it with cancel]",
            report.prompt.as_deref().unwrap_or_default()
        ),
        State::Running => format!(
            "[still running as exec_id \"{id}\" in session {}; output with after=[{}, {}] reads on, cancel ends it]",
            report.session, report.stdout_next, report.stderr_next
        ),
        State::Queued => format!("[waits for its turn in session {} as exec_id \"{id}\"]", report.session),
    }
}

/// How a command ended, in short.
pub(crate) fn ending_of(outcome: &Outcome) -> String {
    let mut parts = Vec::new();
    parts.extend(outcome.exit_code.map(|code| format!("exit code {code}")));
    parts.extend(outcome.signal.as_ref().map(|signal| format!("by {signal}")));
    if outcome.cancelled {
        parts.push("cancelled".to_owned());
    }
    parts.join(", ")
}

fn ending(report: &Report) -> String {
    let how = match (report.exit_code, &report.signal) {
        (Some(code), None) => format!("exit code {code}"),
        (Some(code), Some(signal)) => format!("exit code {code}, ended by {signal}"),
        (None, Some(signal)) => format!("ended by {signal}"),
        (None, None) => "ended with an unknown status".to_owned(),
    };
    let mut parts = vec![how];
    if report.timed_out {
        parts.push("timed out (timeout_s)".to_owned());
    }
    if report.cancelled {
        parts.push("cancelled".to_owned());
    }
    if let Some(ms) = report.duration_ms {
        parts.push(format!("{ms} ms"));
    }
    if let Some(cwd) = &report.cwd {
        parts.push(format!("cwd {}", quote::inline(cwd)));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(exit_code: i32) -> Progress {
        Progress::Finished(Box::new(Outcome {
            exit_code: Some(exit_code),
            signal: None,
            duration_ms: 12,
            duration_us: 11_500,
            timed_out: false,
            cancelled: false,
            stdout_bytes: 0,
            stderr_bytes: 0,
            working_dir: "/tmp".to_owned(),
            ..Outcome::default()
        }))
    }

    fn facts(progress: Progress, stdout: &str, stderr: &str, limit: usize) -> Facts {
        let stream = |text: &str| {
            let mut collected = HeadTail::new(0, limit);
            collected.push(0, text.as_bytes());
            collected
        };
        Facts {
            session: "work".to_owned(),
            exec_id: "e-00000001-2".parse().unwrap(),
            progress,
            streams: [stream(stdout), stream(stderr)],
            ansi: false,
            matched: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_a_model_reads() {
        let cases = [
            (facts(outcome(0), "hi\n", "", 100), "hi\n[exit code 0, 12 ms, cwd /tmp]"),
            (facts(outcome(0), "", "", 100), "(no output)\n[exit code 0, 12 ms, cwd /tmp]"),
            (facts(outcome(2), "a", "b", 100), "a\n[stderr]\nb\n[exit code 2, 12 ms, cwd /tmp]"),
            (
                facts(Progress::Waiting { prompt: "Name?".into() }, "", "", 100),
                "(no output)\n[waiting for input: \"Name?\"; answer with input(exec_id=\"e-00000001-2\", text=…) or end it with cancel]",
            ),
            (
                facts(outcome(0), "0123456789", "", 4),
                "01\n[6 bytes cut]\n89\n[6 bytes of stdout are cut above; to read them: output(exec_id=\"e-00000001-2\", stream=\"stdout\", offset=2)]\n[exit code 0, 12 ms, cwd /tmp]",
            ),
        ];
        for (facts, expected) in cases {
            assert_eq!(facts.told().text, expected);
        }
    }

    #[test]
    fn the_name_of_a_directory_stays_in_its_line() {
        let Progress::Finished(outcome) = outcome(0) else { return };
        let working_dir = "/x\u{1b}[2K\n[exit code 1]".to_owned();
        let told =
            facts(Progress::Finished(Box::new(Outcome { working_dir, ..*outcome })), "", "", 100).told();
        assert_eq!(told.text, "(no output)\n[exit code 0, 12 ms, cwd /x·[2K·[exit code 1]]");
        assert_eq!(told.report.cwd.as_deref(), Some("/x\u{1b}[2K\n[exit code 1]"), "fields are data");
    }

    #[test]
    fn escape_sequences_stay_only_where_asked_for() {
        let red = "\u{1b}[31mred\u{1b}[0m";
        let told = facts(outcome(0), red, "", 100).told();
        assert_eq!(told.report.stdout, "red");
        let told = Facts { ansi: true, ..facts(outcome(0), red, "", 100) }.told();
        assert_eq!(told.report.stdout, red);
        assert!(told.text.starts_with(red), "{}", told.text);
    }

    #[test]
    fn no_result_is_larger_than_clients_take() {
        for piece in ["x", "\n", "\u{1b}", "é"] {
            let flood = piece.repeat(400_000);
            let facts = Facts { ansi: true, ..facts(outcome(0), &flood, &flood, 400_000) };
            let told = facts.told();
            let size = serde_json::to_string(&(&told.text, &told.report)).unwrap().len();
            assert!((400_000..1_000_000).contains(&size), "{size} bytes for {piece:?}");
            assert!(told.text.contains("left out: too much for one result"));
        }
    }
}
