//! What is enforced by what: told truthfully to whoever asked for it.

use trl_protocol::isolation::{Enforced, Isolation, IsolationReport, Missing, Net};

/// Which layers a session is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layers {
    Namespaces,
    /// Landlock and seccomp alone, because namespaces cannot be had.
    InPlace {
        why: String,
        remedy: String,
    },
}

pub fn of(requested: &Isolation, layers: &Layers, private_bytes: u64) -> IsolationReport {
    let mut report = IsolationReport { requested: requested.clone(), ..IsolationReport::default() };
    if requested.is_none() {
        return report;
    }
    let mut enforced = |what: &str, by: &str| {
        report.enforced.push(Enforced { what: what.to_owned(), by: by.to_owned() });
    };
    match layers {
        Layers::Namespaces => {
            enforced("files", "mount namespace, Landlock");
            enforced("home directory", "mount namespace");
            enforced("private /tmp", &format!("tmpfs of at most {private_bytes} bytes"));
            enforced("processes", "pid namespace, Landlock");
            enforced("shared memory and queues", "ipc namespace");
            match requested.net {
                Net::None => enforced("network", "network namespace"),
                Net::Allow(_) => enforced("network", "network namespace, proxy for the listed hosts"),
                Net::Full => {}
            }
            enforced("devices", "mount namespace");
            enforced("privileges", "user namespace, no capabilities, no_new_privs");
        }
        Layers::InPlace { .. } => {
            enforced("reading and writing files", "Landlock");
            enforced("signals and abstract sockets", "Landlock");
            enforced("shared memory and queues", "seccomp");
            if requested.net != Net::Full {
                enforced("network", "Landlock, seccomp");
            }
            enforced("privileges", "no_new_privs");
        }
    }
    enforced("system calls", "seccomp");
    if let Layers::InPlace { why, remedy } = layers {
        let missing = [
            "private /tmp",
            "hidden processes",
            "hidden names of files outside",
            "modes, owners, times and attributes of the user's files outside",
            "sockets that have a path outside",
            "own loopback",
            "hidden paths in the workspace",
        ];
        let proxy =
            matches!(requested.net, Net::Allow(_)).then_some("listed hosts: there is no network at all");
        report.missing = missing
            .iter()
            .chain(&proxy)
            .map(|what| Missing { what: (*what).to_owned(), why: why.clone(), remedy: remedy.clone() })
            .collect();
    }
    report
}
