//! The variables that programs of a session are started with.

use std::collections::BTreeMap;

use trl_confine::hosts::Hosts;
use trl_confine::plan::PROXY_PORT;
use trl_protocol::isolation::{Isolation, Net};
use trl_protocol::wire::SessionSpec;

use super::Cage;

/// Variables that name sockets, displays and directories of the outside.
const OUTSIDE_ONLY: &[&str] = &[
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "SSH_AGENT_PID",
    "SSH_AUTH_SOCK",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TRL_SOCKET_PATH",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

impl Cage {
    /// The variables of the session's programs. Inside, names of sockets outside mislead, and the
    /// place for temporary files is another.
    pub(crate) fn environment(&self, spec: &SessionSpec) -> BTreeMap<String, String> {
        let mut env = spec.env.clone();
        if self.is_closed() {
            env.retain(|name, _| !OUTSIDE_ONLY.contains(&name.as_str()) && !name.starts_with("DBUS_"));
        }
        if let (Some(_), Some(Isolation { net: Net::Allow(hosts), .. })) =
            (&self.listener.socket, &spec.isolation)
        {
            env.extend(proxy_variables(hosts));
        }
        env
    }
}

/// What tells programs of the proxy. Their own loopback is reached without it, unless the list names it.
fn proxy_variables(hosts: &[String]) -> impl Iterator<Item = (String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let hosts = Hosts::parse(hosts).unwrap_or_default();
    let own = ["localhost", "127.0.0.1", "::1"].into_iter();
    let direct: Vec<&str> = own.filter(|own| !hosts.mentions(own)).collect();
    let direct = direct.join(",");
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, proxy.clone()));
    let both = |(name, value): (&str, String)| {
        [(name.to_owned(), value.clone()), (name.to_ascii_lowercase(), value)]
    };
    names.into_iter().chain([("NO_PROXY", direct)]).flat_map(both)
}
