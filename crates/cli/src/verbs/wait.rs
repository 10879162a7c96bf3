//! `trl wait`: until a command is over, says something, or serves.

use trl_protocol::exec::{Exit, LogUntil, Matched, PortUntil, Until, WaitParams, Waited};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;
use crate::verbs::run::{TIMED_OUT, UNKNOWN, seconds};

/// Wait until a command ends, prints something, or opens a port
///
/// Ends with the command's own status when it waits for the end; otherwise with 0 when what
/// was waited for came, 1 if the command ended before, 124 if the time was over.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command's id, as printed by `trl run --detach` and `trl ps`
    #[arg(value_name = "COMMAND_ID")]
    exec: String,
    /// Until its output contains this text, including earlier output
    #[arg(short, long, value_name = "TEXT", conflicts_with_all = ["port", "regex"])]
    log: Option<String>,
    /// Until its output matches this regular expression
    #[arg(short, long, value_name = "EXPRESSION", conflicts_with = "port")]
    regex: Option<String>,
    /// Until this port accepts connections: PORT or HOST:PORT
    #[arg(short, long, value_name = "PORT", value_parser = address)]
    port: Option<(Option<String>, u16)>,
    /// With --port: until this path is answered with a status below 400
    #[arg(long, value_name = "PATH", requires = "port")]
    http: Option<String>,
    /// Time limit; without it there is none
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<f64>,
}

fn address(text: &str) -> std::result::Result<(Option<String>, u16), String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (Some(host.trim_start_matches('[').trim_end_matches(']').to_owned()), port),
        None => (None, text),
    };
    let port = port.parse().ok().filter(|port| *port > 0);
    port.map(|port| (host, port)).ok_or_else(|| "PORT or HOST:PORT is expected".to_owned())
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let params = WaitParams { exec_id: args.exec.clone(), timeout_s: args.timeout, until: Some(until(args)) };
    output::note_to_person(&format!("waiting for {} ({})", args.exec, goal(args)));
    let waited = context.client().await?.call::<methods::ExecWait>(&params).await.map_err(Failure::from)?;
    tell(&waited, context)?;
    Ok(match (&waited.matched, &waited.info.outcome) {
        (Matched::Exit(_), Some(outcome)) if outcome.timed_out => TIMED_OUT,
        (Matched::Exit(_), Some(outcome)) => outcome.exit_code.map_or(UNKNOWN, |code| (code & 0xff) as u8),
        (Matched::Exit(_), None) => UNKNOWN,
        (Matched::Log { .. } | Matched::Port { .. }, _) => 0,
    })
}

fn until(args: &Args) -> Until {
    let log = |pattern: &String, regex| LogUntil {
        pattern: Some(pattern.clone()),
        patterns: Vec::new(),
        regex,
        stream: None,
        from_offset: 0,
        from_offsets: None,
    };
    let port = args.port.as_ref().map(|(host, port)| PortUntil {
        port: *port,
        host: host.clone(),
        http_path: args.http.clone(),
    });
    let log =
        args.log.as_ref().map(|text| log(text, false)).or(args.regex.as_ref().map(|text| log(text, true)));
    let exit = (log.is_none() && port.is_none()).then_some(Exit::Said(true));
    Until { exit, log, port }
}

fn goal(args: &Args) -> &'static str {
    match (&args.port, args.log.is_some() || args.regex.is_some()) {
        (Some(_), _) => "its port",
        (None, true) => "its output",
        (None, false) => "its end",
    }
}

fn tell(waited: &Waited, context: &Context) -> Result<()> {
    let output = context.output;
    if output.json {
        return output.json(waited);
    }
    match &waited.matched {
        Matched::Exit(_) => Ok(()),
        Matched::Log { text, .. } => output.line(text),
        Matched::Port { port, host, .. } => output.line(format!("{host}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_port_or_a_host_and_a_port() {
        assert_eq!(address("80"), Ok((None, 80)));
        assert_eq!(address("localhost:80"), Ok((Some("localhost".into()), 80)));
        assert_eq!(address("[::1]:80"), Ok((Some("::1".into()), 80)));
        assert!(address("0").is_err() && address("x").is_err() && address("a:b").is_err());
    }
}
