//! `GET /metrics`: what is counted, in the text format of Prometheus.

use std::fmt::{Display, Write as _};

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use trl_protocol::session::{SessionState, Usage};
use trl_runtime::{CLASSES, Metrics};

use super::access::Grant;
use super::answer;
use super::routes::Front;

pub(crate) async fn tell(State(front): State<Front>, Extension(grant): Extension<Grant>) -> Response {
    if let Err(fault) = grant.whole_daemon("metrics") {
        return answer::refusal(StatusCode::FORBIDDEN, fault);
    }
    let text = written(&front.runtime.metrics().await);
    answer::of(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// Names of sessions and what they say are nobody's business here: only numbers are told.
fn written(metrics: &Metrics) -> String {
    let mut page = Page::default();
    let Metrics { stats, sessions, requests, output_bytes, restarts, mail_sent, mail_read } = metrics;
    page.head("trl_sessions", "gauge", "Sessions by state.");
    for (state, name) in [
        (SessionState::Creating, "creating"),
        (SessionState::Idle, "idle"),
        (SessionState::Running, "running"),
        (SessionState::Lost, "lost"),
        (SessionState::Damaged, "damaged"),
    ] {
        let count = sessions.iter().filter(|session| session.state == state).count();
        page.row("trl_sessions", &format!("state=\"{name}\""), count);
    }
    page.one("trl_session_restarts_total", "counter", "Shells that were replaced.", restarts);
    page.one("trl_commands_total", "counter", "Commands that were run or started.", stats.total_commands_run);
    page.one(
        "trl_commands_running",
        "gauge",
        "Commands in the foreground of a session.",
        stats.running_commands,
    );
    page.one("trl_commands_queued", "gauge", "Commands that wait for their session.", {
        sessions.iter().map(|session| session.queued).sum::<usize>()
    });
    page.head("trl_output_bytes_total", "counter", "Output of all commands.");
    page.row("trl_output_bytes_total", "stream=\"stdout\"", output_bytes[0]);
    page.row("trl_output_bytes_total", "stream=\"stderr\"", output_bytes[1]);
    page.head("trl_requests_total", "counter", "Requests by method and result.");
    for it in requests {
        for (result, count) in [("ok", it.answered), ("fault", it.refused)] {
            page.row("trl_requests_total", &format!("method=\"{}\",result=\"{result}\"", it.method), count);
        }
    }
    page.one("trl_mail_sent_total", "counter", "Messages that clients sent.", mail_sent);
    page.one("trl_mail_read_total", "counter", "Messages that were handed to clients.", mail_read);
    page.head("trl_request_seconds", "histogram", "How long requests took.");
    for it in requests {
        let method = format!("method=\"{}\"", it.method);
        for (class, count) in CLASSES.iter().zip(it.within) {
            page.row("trl_request_seconds_bucket", &format!("{method},le=\"{class}\""), count);
        }
        let all = it.answered + it.refused;
        page.row("trl_request_seconds_bucket", &format!("{method},le=\"+Inf\""), all);
        page.row("trl_request_seconds_sum", &method, it.seconds);
        page.row("trl_request_seconds_count", &method, all);
    }
    let Usage { cpu_s, memory_bytes, processes, written_bytes, throttled_s, .. } = stats.usage;
    let used = [
        ("trl_sessions_cpu_seconds", "Processor time of living sessions.", cpu_s),
        ("trl_sessions_memory_bytes", "Memory of living sessions.", memory_bytes.map(|bytes| bytes as f64)),
        ("trl_sessions_processes", "Processes of living sessions.", processes.map(|count| count as f64)),
        (
            "trl_sessions_written_bytes",
            "Bytes that living sessions wrote.",
            written_bytes.map(|bytes| bytes as f64),
        ),
        ("trl_sessions_throttled_seconds", "How long limits held living sessions back.", throttled_s),
    ];
    for (name, help, value) in used {
        page.one(name, "gauge", help, value.unwrap_or(0.0));
    }
    page.one("trl_connections", "gauge", "Connections of clients.", stats.connections);
    page.one("trl_uptime_seconds", "gauge", "Age of this daemon.", stats.uptime_s);
    page.one("process_resident_memory_bytes", "gauge", "Memory of this daemon.", stats.memory_rss_bytes);
    page.one("process_open_fds", "gauge", "Open descriptors of this daemon.", stats.open_fds);
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let written = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        debug_assert!(written.is_ok(), "a String takes all");
    }

    fn row(&mut self, name: &str, labels: &str, value: impl Display) {
        let written = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
        debug_assert!(written.is_ok(), "a String takes all");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.row(name, "", value);
    }
}
