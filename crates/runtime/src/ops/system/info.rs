//! `system.info`: what this daemon is and can do.

use trl_protocol::system::{LimitsInfo, SystemInfo};
use trl_protocol::wire::HOST_PROTOCOL;
use trl_protocol::{METHODS, PROTOCOL_VERSION, limits};

use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Inner) -> SystemInfo {
    let config = &runtime.config;
    let (isolation, mut isolation_missing) = trl_confine::support();
    isolation_missing.extend(trl_confine::limits().1.iter().cloned());
    SystemInfo {
        version: config.version.clone(),
        protocol_version: PROTOCOL_VERSION,
        host_protocol_version: HOST_PROTOCOL,
        pid: std::process::id(),
        features: METHODS.iter().map(|method| method.name.to_owned()).collect(),
        shells: runtime.backends.default().shells(),
        limits: LimitsInfo {
            max_sessions: config.max_sessions,
            default_timeout_s: config.default_timeout_s,
            max_output_bytes: config.max_output_bytes,
            journal_bytes: config.journal_bytes,
            max_line_bytes: limits::MAX_LINE_BYTES,
            max_command_bytes: limits::MAX_COMMAND_BYTES,
            max_stdin_bytes: limits::MAX_STDIN_BYTES,
            max_idle_s: config.max_idle_s,
            session_ttl_s: config.session_ttl_s,
        },
        isolation: isolation.iter().map(|profile| profile.name().to_owned()).collect(),
        isolation_missing,
    }
}
