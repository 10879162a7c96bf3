//! The limits of a session: what its groups bound, what each process is bound to, and what was hit.

use trl_confine::linux::cgroups::{Groups, Hits, Wanted};
use trl_confine::linux::{ProcessLimit, ProcessLimits, Step};
use trl_protocol::exec::HitLimit;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::isolation::{Enforced, IsolationReport, Missing};
use trl_protocol::limits::DEFAULT_JOURNAL_BYTES;
use trl_protocol::session::SessionLimits;
use trl_protocol::wire::SessionSpec;

use super::Cage;

/// What keeps the session's processes; some limits need a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldBy {
    Nothing,
    Namespaces,
    Landlock,
    /// A container's engine, which has told itself what it enforces.
    Engine,
}

/// The limits of each process, and what is said about all limits.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) each: ProcessLimits,
    pub(super) report: IsolationReport,
}

impl Cage {
    /// Which limit a command that began then, and ended so, has run into.
    pub(crate) fn hit_since(
        &self,
        before: Hits,
        limits: &SessionLimits,
        exit_code: Option<i32>,
    ) -> Option<HitLimit> {
        let now = self.hits();
        let died_of = |signal: i32| exit_code == Some(128 + signal);
        if now.memory > before.memory {
            Some(HitLimit::Memory)
        } else if now.pids > before.pids {
            Some(HitLimit::Pids)
        } else if limits.file_size.is_some() && died_of(libc::SIGXFSZ) {
            Some(HitLimit::FileSize)
        } else if limits.cpu_time_s.is_some() && died_of(libc::SIGXCPU) {
            Some(HitLimit::CpuTimeS)
        } else {
            None
        }
    }
}

/// What the session's groups are to bound.
pub(super) fn wanted(spec: &SessionSpec) -> Wanted {
    let limits = &spec.limits;
    match spec.outside {
        Some(_) => Wanted::default(),
        None => Wanted { memory: limits.memory.map(|size| size.0), pids: limits.pids, cpu: limits.cpu },
    }
}

/// What bounds the session beside its groups; what cannot be enforced is a fault unless less is accepted.
pub(super) fn bounds(spec: &SessionSpec, groups: &Groups, held_by: HeldBy) -> Result<Bounds, Fault> {
    let (limits, wanted) = (&spec.limits, wanted(spec));
    let best_effort = spec.isolation.as_ref().is_some_and(|isolation| isolation.best_effort);
    let mut report = IsolationReport::default();
    let mut each: Vec<(ProcessLimit, u64)> = Vec::new();
    let mut enforced = |what: &str, by: &str| {
        report.enforced.push(Enforced { what: format!("limit {what}"), by: by.to_owned() });
    };
    for (what, by) in &groups.enforced {
        enforced(what, by);
    }
    let simple = [
        ("open_files", ProcessLimit::OpenFiles, limits.open_files),
        ("file_size", ProcessLimit::FileSize, limits.file_size.map(|size| size.0)),
        ("cpu_time_s", ProcessLimit::CpuSeconds, limits.cpu_time_s.map(|seconds| seconds.ceil() as u64)),
    ];
    for (what, limit, most) in simple {
        if let Some(most) = most {
            each.push((limit, most));
            enforced(what, "resource limit of each process");
        }
    }
    let mut missing: Vec<Missing> = Vec::new();
    for (what, why) in &groups.missing {
        match (*what, wanted.memory, wanted.pids) {
            ("memory", Some(bytes), _) => {
                each.push((ProcessLimit::Data, bytes));
                enforced("memory", "resource limit of each process only");
            }
            // Counted in the session's own user namespace; the kernel exempts root.
            ("pids", _, Some(most))
                if held_by == HeldBy::Namespaces && !rustix::process::geteuid().is_root() =>
            {
                each.push((ProcessLimit::Processes, most + 2));
                enforced("pids", "resource limit of the session's user namespace");
            }
            _ => missing.push(Missing {
                what: format!("limit {what}"),
                why: why.clone(),
                remedy: Step::limits_remedy().to_owned(),
            }),
        }
    }
    if limits.disk.is_some() {
        match held_by {
            HeldBy::Namespaces => enforced("disk", "size of the private tmpfs"),
            HeldBy::Engine => {}
            HeldBy::Nothing | HeldBy::Landlock => missing.push(Missing {
                what: "limit disk".to_owned(),
                why: "only the private directories of an isolated session have a bounded size".to_owned(),
                remedy: "isolation `workspace` or `strict`, with user namespaces".to_owned(),
            }),
        }
    }
    if let (Some(first), false) = (missing.first(), best_effort) {
        let message = format!(
            "param `limits`: {} cannot be enforced on this machine: {}. What helps: {}; isolation `{{best_effort:true}}` accepts less",
            first.what, first.why, first.remedy
        );
        return Err(Fault::new(Code::IsolationUnavailable, message));
    }
    report.missing = missing;
    Ok(Bounds { each: ProcessLimits { limits: each }, report })
}

/// Whether a session has limits of its own. The daemon gives each session a size of its journals.
pub(super) fn are_given(limits: &SessionLimits) -> bool {
    let usual = SessionLimits { journal_bytes: limits.journal_bytes, ..SessionLimits::default() };
    *limits != usual || limits.journal_bytes.is_some_and(|bytes| bytes != DEFAULT_JOURNAL_BYTES)
}
