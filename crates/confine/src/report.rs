//! What is enforced by what: told truthfully to whoever asked for it.

use trl_protocol::isolation::{Enforced, Isolation, IsolationReport, Missing, Net};

/// Versions of Landlock from which on it knows of these, and the kernels that have them.
const TRUNCATION: (i32, &str) = (3, "a kernel from 6.2 on");
const SIGNALS_AND_SOCKETS: (i32, &str) = (6, "a kernel from 6.12 on");

/// Which layers a session is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// The version of Landlock that the kernel has.
    pub landlock: i32,
    /// Without namespaces, Landlock and seccomp are alone.
    pub namespaces: Result<(), WhyNot>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhyNot {
    pub why: String,
    pub remedy: String,
}

pub fn of(requested: &Isolation, layers: &Layers, private_bytes: u64) -> IsolationReport {
    let mut report = IsolationReport { requested: requested.clone(), ..IsolationReport::default() };
    if requested.is_none() {
        return report;
    }
    match &layers.namespaces {
        Ok(()) => in_namespaces(&mut report, layers.landlock, private_bytes),
        Err(why_not) => in_place(&mut report, layers.landlock, why_not),
    }
    enforced(&mut report, "system calls", "seccomp");
    report
}

fn enforced(report: &mut IsolationReport, what: &str, by: &str) {
    report.enforced.push(Enforced { what: what.to_owned(), by: by.to_owned() });
}

fn in_namespaces(report: &mut IsolationReport, landlock: i32, private_bytes: u64) {
    let scopes = landlock >= SIGNALS_AND_SOCKETS.0;
    enforced(report, "files", "mount namespace, Landlock");
    enforced(report, "home directory", "mount namespace");
    enforced(report, "private /tmp", &format!("tmpfs of at most {private_bytes} bytes"));
    enforced(report, "processes", if scopes { "pid namespace, Landlock" } else { "pid namespace" });
    enforced(report, "shared memory and queues", "ipc namespace");
    match report.requested.net {
        Net::None => enforced(report, "network", "network namespace"),
        Net::Allow(_) => enforced(report, "network", "network namespace, proxy for the listed hosts"),
        // The machine's network has the machine's abstract sockets.
        Net::Full if scopes => enforced(report, "abstract sockets", "Landlock"),
        Net::Full => {}
    }
    if report.requested.root.is_some() {
        enforced(report, "root directory", "pivot_root");
    }
    enforced(report, "devices", "mount namespace");
    enforced(report, "privileges", "user namespace, no capabilities, no_new_privs");
}

fn in_place(report: &mut IsolationReport, landlock: i32, why_not: &WhyNot) {
    let missing = |what: &str| Missing {
        what: what.to_owned(),
        why: why_not.why.clone(),
        remedy: why_not.remedy.clone(),
    };
    let older = |what: &str, remedy: &str| Missing {
        what: what.to_owned(),
        why: format!("version {landlock} of Landlock does not know of it"),
        remedy: remedy.to_owned(),
    };
    enforced(report, "reading and writing files", "Landlock");
    enforced(report, "shared memory and queues", "seccomp");
    enforced(report, "sockets that have a path", "seccomp, which refuses all sockets of that kind");
    if report.requested.net != Net::Full {
        enforced(report, "network", "Landlock, seccomp");
    }
    enforced(report, "privileges", "no capabilities, no_new_privs");
    let (signals, kernel) = SIGNALS_AND_SOCKETS;
    match landlock >= signals {
        true => enforced(report, "signals", "Landlock"),
        false => report.missing.push(older("signals to other processes", kernel)),
    }
    if landlock < TRUNCATION.0 {
        report.missing.push(older("files outside, which can be made empty", TRUNCATION.1));
    }
    report.missing.extend(
        [
            "private /tmp",
            "hidden processes",
            "hidden names of files outside",
            "modes, owners, times and attributes of the user's files outside",
            "other terminals of the user",
            "what /proc tells of the whole machine",
            "own loopback",
            "hidden paths in the workspace",
        ]
        .map(missing),
    );
    if matches!(report.requested.net, Net::Allow(_)) {
        report.missing.push(missing("listed hosts: there is no network at all"));
    }
}

#[cfg(test)]
mod tests {
    use trl_protocol::isolation::Profile;

    use super::*;

    fn report(landlock: i32, has_namespaces: bool, net: Net) -> (Vec<String>, Vec<String>) {
        let why_not = WhyNot { why: "why".to_owned(), remedy: "remedy".to_owned() };
        let layers = Layers { landlock, namespaces: has_namespaces.then_some(()).ok_or(why_not) };
        let requested = Isolation { net, ..Isolation::of(Profile::Workspace) };
        let report = of(&requested, &layers, 1);
        let enforced = report.enforced.iter().map(|one| format!("{}: {}", one.what, one.by)).collect();
        (enforced, report.missing.into_iter().map(|one| one.what).collect())
    }

    /// Nothing is said to be enforced by what the kernel does not have.
    #[test]
    fn an_older_kernel_enforces_less() {
        let says = |all: &[String], what: &str| all.iter().any(|one| one.contains(what));
        let (enforced, missing) = report(7, true, Net::None);
        assert!(says(&enforced, "processes: pid namespace, Landlock") && missing.is_empty());
        let (enforced, _) = report(5, true, Net::None);
        assert!(says(&enforced, "processes: pid namespace") && !says(&enforced, "namespace, Landlock: "));
        assert!(says(&report(6, true, Net::Full).0, "abstract"));
        assert!(!says(&report(5, true, Net::Full).0, "abstract"));
        let (enforced, missing) = report(7, false, Net::None);
        assert!(says(&enforced, "signals") && !says(&missing, "signals") && says(&missing, "private /tmp"));
        let (enforced, missing) = report(2, false, Net::None);
        assert!(!says(&enforced, "signals") && says(&missing, "signals") && says(&missing, "made empty"));
        assert!(says(&report(7, false, Net::Allow(Vec::new())).1, "no network at all"));
        assert!(!says(&report(7, false, Net::Full).0, "network"));
    }
}
