//! Does a daemon answer, and does it speak as we do?

use trl_protocol::system::NoParams;
use trl_protocol::{PROTOCOL_VERSION, methods};

use super::Check;
use crate::context::Context;
use crate::failure::Failure;
use crate::human;
use crate::verbs::version::OURS;

pub(super) async fn check(context: &Context) -> Vec<Check> {
    const NAME: &str = "daemon";
    let client = match context.running().await {
        Ok(Some(client)) => client,
        Ok(None) => return vec![Check::ok(NAME, "not running; it starts on first use")],
        Err(failure) => return vec![silent(&failure)],
    };
    let asked = async {
        let info = client.call::<methods::SystemInfo>(&NoParams {}).await?;
        let stats = client.call::<methods::SystemStats>(&NoParams {}).await?;
        Ok::<_, trl_client::Error>((info, stats))
    };
    let (info, stats) = match asked.await {
        Ok(answers) => answers,
        Err(error) => return vec![silent(&Failure::from(error))],
    };
    let found = format!(
        "answers (pid {}, up {}, {} sessions, {} in memory)",
        info.pid,
        human::duration(stats.uptime_s),
        stats.active_sessions,
        human::bytes(stats.memory_rss_bytes)
    );
    vec![Check::ok(NAME, found), versions(&info.version, info.protocol_version)]
}

fn silent(failure: &Failure) -> Check {
    let means = "No verb that needs the daemon works.";
    Check::fail("daemon", failure.message(), means, "Look into its log, end it, and start it again.")
}

fn versions(theirs: &str, protocol: u32) -> Check {
    const NAME: &str = "versions";
    if protocol != PROTOCOL_VERSION {
        return Check::fail(
            NAME,
            format!("the daemon speaks protocol {protocol}, this client {PROTOCOL_VERSION}"),
            "They may misunderstand each other.",
            "`trl restart` replaces the daemon by one of this binary; sessions stay.",
        );
    }
    if theirs != OURS {
        return Check::warn(
            NAME,
            format!("the daemon is {theirs}, this client {OURS}"),
            "What is new in one is missing in the other.",
            "`trl restart` replaces the daemon by one of this binary; sessions stay.",
        );
    }
    Check::ok(NAME, format!("both {OURS}"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn skew_is_told_by_its_gravity() {
        assert_eq!(versions(OURS, PROTOCOL_VERSION).state, State::Ok);
        assert_eq!(versions("0.0.1", PROTOCOL_VERSION).state, State::Warn);
        assert_eq!(versions(OURS, PROTOCOL_VERSION + 1).state, State::Fail);
    }
}
