//! Every stage × every event: what happens is written down, and some rules hold everywhere.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;

/// What happens in every combination, as text. `UPDATE=1` writes the file anew.
#[test]
fn every_transition_is_as_written_down() {
    let mut table = String::from(
        "# What every event causes in every stage. Written by the driver's tests with UPDATE=1.\n",
    );
    for (stage_label, stage) in stages() {
        writeln!(table, "\n{stage_label}").unwrap();
        let mut ignored = Vec::new();
        for (event_label, when, event) in events() {
            let mut driver = driver(stage.clone());
            let effects = tell(&mut driver, event, when);
            if driver.stage == stage && effects.is_empty() && !driver.restart && !driver.ending {
                ignored.push(event_label);
                continue;
            }
            let flags = match (driver.restart, driver.ending) {
                (true, _) => " (restart pending)",
                (_, true) => " (ending)",
                (false, false) => "",
            };
            writeln!(table, "  {event_label} -> {}{flags}", shown(&driver.stage)).unwrap();
            for effect in effects {
                writeln!(table, "      {effect:?}").unwrap();
            }
        }
        writeln!(table, "  no effect: {}", ignored.join("; ")).unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/driver/transitions.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == table, "the driver does something else than {path} says; it is now:\n{table}");
}

/// A stage with its times, relative to the start.
fn shown(stage: &Stage) -> String {
    let time = |at: &Instant| format!("{} ms", at.duration_since(start()).as_millis());
    let maybe = |at: &Option<Instant>| at.as_ref().map_or("-".to_owned(), time);
    let stop = |stop: &Option<Stop>| {
        stop.as_ref().map_or(String::new(), |stop| format!(", stop step at {}", time(&stop.next())))
    };
    match stage {
        Stage::Dead | Stage::Replacing | Stage::Idle => stage_name(stage).to_owned(),
        Stage::Starting { restore, deadline, prompt_due, startup_files } => {
            let files = match startup_files {
                StartupFiles::None => "",
                StartupFiles::Read => ", start-up files",
                StartupFiles::Interrupted => ", start-up files interrupted",
            };
            let due = maybe(prompt_due);
            format!("Starting {restore:?}, until {}, prompt due {due}{files}", time(deadline))
        }
        Stage::Running { exec, deadline, prompt_due, stop: stopped } => format!(
            "Running {exec}, until {}, prompt due {}{}",
            maybe(deadline),
            maybe(prompt_due),
            stop(stopped)
        ),
        Stage::Asking { exec, deadline, exec_deadline, stop: stopped } => format!(
            "Asking {exec}, until {}, command until {}{}",
            time(deadline),
            maybe(exec_deadline),
            stop(stopped)
        ),
        Stage::Draining { exec, status, stop: stopped, .. } => {
            format!("Draining {exec}, status {status}{}", stop(&Some(*stopped)))
        }
        Stage::Clearing { exec, deadline, stray_check, .. } => {
            format!("Clearing {exec}, until {}, strays at {}", time(deadline), time(stray_check))
        }
        Stage::Settling { purpose, uncovered, deadline, stray_check } => format!(
            "Settling {purpose:?}{}, until {}, strays at {}",
            if *uncovered { ", uncovered" } else { "" },
            time(deadline),
            maybe(stray_check)
        ),
    }
}

#[test]
fn the_samples_have_every_stage_and_every_event() {
    let stages: BTreeSet<&str> = stages().iter().map(|(_, stage)| stage_name(stage)).collect();
    assert_eq!(stages, STAGES.into_iter().collect());
    let events: BTreeSet<&str> = events().iter().map(|(_, _, event)| event_name(event)).collect();
    assert_eq!(events, EVENTS.into_iter().collect());
}

/// Runs a check on every combination, with and without a session that is ending.
fn for_all(check: impl Fn(&str, &Stage, &Event, u64, &Driver, &[Effect])) {
    for ending in [false, true] {
        for (stage_label, stage) in stages() {
            for (event_label, when, event) in events() {
                let mut driver = driver(stage.clone());
                driver.ending = ending;
                let effects = tell(&mut driver, event.clone(), when);
                let label = format!("{stage_label} × {event_label} (ending: {ending})");
                check(&label, &stage, &event, when, &driver, &effects);
            }
        }
    }
}

#[test]
fn a_command_leaves_the_shell_with_exactly_one_end() {
    for_all(|label, stage, event, _, driver, effects| {
        let ends =
            effects.iter().filter(|effect| matches!(effect, Effect::Finish { .. } | Effect::Requeue { .. }));
        // The event loop has answered the command itself when it could not be launched.
        let is_answered = matches!(event, Event::LaunchFailed | Event::AllGone);
        let left = stage.foreground().is_some() && driver.foreground() != stage.foreground() && !is_answered;
        assert_eq!(ends.count(), usize::from(left), "{label}: {effects:?}");
    });
}

#[test]
fn an_ending_session_starts_nothing() {
    for_all(|label, _, _, _, driver, effects| {
        let starts = |effect: &Effect| matches!(effect, Effect::SpawnShell | Effect::Launch { .. });
        assert!(!(driver.ending && effects.iter().any(starts)), "{label}: {effects:?}");
    });
}

#[test]
fn a_killed_shell_is_gone() {
    for_all(|label, _, _, _, driver, effects| {
        if effects.contains(&Effect::KillShell) {
            assert!(matches!(driver.stage, Stage::Dead | Stage::Replacing), "{label}: {:?}", driver.stage);
        }
    });
}

#[test]
fn what_was_due_is_not_due_again_at_once() {
    for_all(|label, _, event, when, driver, _| {
        if *event == Event::Time {
            assert!(driver.next_deadline().is_none_or(|next| next > at(when)), "{label}: {:?}", driver.stage);
        }
    });
}

#[test]
fn a_shell_that_is_waited_for_has_a_deadline() {
    for_all(|label, _, _, _, driver, _| {
        let is_free = matches!(driver.stage, Stage::Dead | Stage::Replacing | Stage::Idle);
        // A command may run for as long as it likes.
        let may_run = matches!(driver.stage, Stage::Running { deadline: None, stop: None, .. });
        assert!(is_free || may_run || driver.next_deadline().is_some(), "{label}: {:?}", driver.stage);
    });
}
