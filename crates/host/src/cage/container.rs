//! What a container's engine enforces, as the container's own control group tells it.

use std::fs;

use trl_confine::linux::cgroups::Hits;
use trl_protocol::wire::SessionSpec;

/// Where a container sees its own group; version 1 has one below for each controller.
const GROUP: &str = "/sys/fs/cgroup";

/// Whether the engine has set a limit whose hits are counted.
pub(super) fn is_bounded(spec: &SessionSpec) -> bool {
    spec.outside.is_some() && (spec.limits.memory.is_some() || spec.limits.pids.is_some())
}

/// How often the container has run into its limits. Where its group is not visible, that is not known.
pub(super) fn hits() -> Hits {
    let either = |v2: &str, v1: &str, field: &str| {
        let text = [v2, v1].iter().find_map(|file| fs::read_to_string(format!("{GROUP}/{file}")).ok());
        text.and_then(|text| counter(&text, field)).unwrap_or(0)
    };
    Hits {
        memory: either("memory.events", "memory/memory.oom_control", "oom_kill"),
        pids: either("pids.events", "pids/pids.events", "max"),
    }
}

/// The number after a name at the beginning of a line.
fn counter(text: &str, field: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(name, _)| *name == field)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_both_versions() {
        assert_eq!(
            counter("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n", "oom_kill"),
            Some(3)
        );
        assert_eq!(counter("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "oom_kill"), Some(1));
        assert_eq!(counter("max 4\n", "max"), Some(4));
        assert_eq!(counter("", "max"), None);
    }
}
