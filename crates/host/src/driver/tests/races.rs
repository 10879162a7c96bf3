//! Races between the shell, the people who use it and time.

use super::*;

/// A command that has just been launched.
fn running() -> Driver {
    let mut driver = driver(Stage::Idle);
    assert_eq!(tell(&mut driver, Event::Next(next(EXEC)), 0), [Effect::Launch { exec: EXEC }]);
    assert!(tell(&mut driver, launched(true), 0).is_empty());
    driver
}

fn finish(end: CommandEnd, why: Option<Why>) -> Effect {
    Effect::Finish { exec: EXEC, end, why }
}

fn stop() -> Event {
    Event::Stop { exec: EXEC, why: Why::Cancel }
}

#[test]
fn a_cancel_that_comes_after_completion_does_nothing() {
    let mut driver = running();
    let effects = tell(&mut driver, Event::Prompt(prompt(0)), 5);
    assert_eq!(effects[0], finish(CommandEnd::Status(0), None));
    let settling = driver.stage.clone();
    assert!(tell(&mut driver, stop(), 6).is_empty());
    assert_eq!(driver.stage, settling);
}

#[test]
fn a_completion_that_comes_after_a_cancel_is_told_as_cancelled() {
    let mut driver = running();
    let first = tell(&mut driver, stop(), 5);
    assert_eq!(first, [Effect::Signal { exec: EXEC, step: Step::Interrupt, shell: true }]);
    assert!(!driver.listens_for_prompt() && driver.watches_control());
    assert_eq!(tell(&mut driver, Event::Prompt(prompt(0)), 6), [Effect::CheckStragglers { exec: EXEC }]);
    let effects = tell(&mut driver, Event::Stragglers { alive: false }, 6);
    assert_eq!(effects[1], finish(CommandEnd::Status(0), Some(Why::Cancel)));
    assert_eq!(effects[2], Effect::SayNothing);
}

#[test]
fn a_deadline_that_passes_during_a_cancel_does_not_change_the_reason() {
    let mut driver = running();
    tell(&mut driver, stop(), 999);
    tell(&mut driver, Event::Time, 1001);
    tell(&mut driver, Event::Prompt(prompt(130)), 1002);
    let effects = tell(&mut driver, Event::Stragglers { alive: false }, 1002);
    assert!(effects.contains(&finish(CommandEnd::Status(130), Some(Why::Cancel))));
}

#[test]
fn a_second_stop_while_draining_takes_no_extra_step() {
    let mut driver = running();
    tell(&mut driver, stop(), 0);
    tell(&mut driver, Event::Prompt(prompt(130)), 10);
    assert!(tell(&mut driver, Event::Stragglers { alive: true }, 10).is_empty());
    assert!(tell(&mut driver, stop(), 20).is_empty());
    assert!(tell(&mut driver, Event::Time, 50).is_empty());
    // The steps go on by time, without a signal to the shell, which is back.
    let step = Effect::Signal { exec: EXEC, step: Step::Interrupt, shell: false };
    assert_eq!(tell(&mut driver, Event::Time, 100), [step, Effect::CheckStragglers { exec: EXEC }]);
}

#[test]
fn processes_that_nothing_ends_do_not_hold_the_session_for_ever() {
    let mut driver = running();
    tell(&mut driver, stop(), 0);
    tell(&mut driver, Event::Prompt(prompt(130)), 10);
    let mut checks = 0;
    while driver.foreground().is_some() {
        let due = driver.next_deadline().unwrap().duration_since(start()).as_millis() as u64;
        tell(&mut driver, Event::Time, due);
        tell(&mut driver, Event::Stragglers { alive: true }, due);
        checks += 1;
        assert!(checks < 20);
    }
    assert_eq!(stage_name(&driver.stage), "Clearing");
}

#[test]
fn a_stop_goes_from_int_over_term_to_kill_and_to_the_shell() {
    let mut driver = running();
    let mut steps = Vec::new();
    for effect in tell(&mut driver, stop(), 0) {
        steps.extend(step_of(&effect));
    }
    while steps.last() != Some(&Step::KillShell) {
        let due = driver.next_deadline().unwrap().duration_since(start()).as_millis() as u64;
        steps.extend(tell(&mut driver, Event::Time, due).iter().filter_map(step_of));
    }
    steps.dedup();
    assert_eq!(steps, [Step::Interrupt, Step::Terminate, Step::Kill, Step::KillShell]);
    let effects = tell(&mut driver, Event::ShellEnded(Exit::Signal(9)), 5000);
    assert_eq!(effects[0], finish(CommandEnd::Shell(Exit::Signal(9)), Some(Why::Cancel)));
}

fn step_of(effect: &Effect) -> Option<Step> {
    match effect {
        Effect::Signal { step, .. } => Some(*step),
        _ => None,
    }
}

#[test]
fn the_shell_may_die_in_any_stage() {
    for (label, stage) in stages() {
        let mut driver = driver(stage.clone());
        let effects = tell(&mut driver, Event::ShellEnded(Exit::Signal(9)), 10);
        let ends = effects.iter().filter(|effect| matches!(effect, Effect::Finish { .. })).count();
        assert_eq!(ends, usize::from(stage.foreground().is_some()), "{label}");
        if matches!(stage, Stage::Dead | Stage::Replacing) {
            assert!(effects.is_empty(), "{label}");
            continue;
        }
        // Where somebody waits for the shell, a new one follows at once.
        if driver.stage == Stage::Replacing {
            assert_eq!(effects.last(), Some(&Effect::SpawnShell), "{label}");
        } else {
            assert_eq!(driver.stage, Stage::Dead, "{label}");
            assert!(matches!(effects.last(), Some(Effect::Note(_) | Effect::StartupFailed(_))), "{label}");
            assert_eq!(tell(&mut driver, Event::Next(next(8)), 20), [Effect::SpawnShell], "{label}");
        }
        // It gets the restored state.
        assert!(
            tell(&mut driver, Event::Spawned(Fresh { restore: true, startup_files: false }), 20).is_empty(),
            "{label}"
        );
        let effects = tell(&mut driver, Event::Prompt(Prompt::default()), 30);
        let baseline =
            AskState { exec: None, purpose: Purpose::Baseline, status: Some(0), prompt_back: false };
        assert_eq!(effects, [Effect::AskState(baseline)], "{label}");
    }
}

#[test]
fn a_prompt_that_never_arrives_costs_the_shell_but_not_the_session() {
    for (label, stage) in stages() {
        let mut driver = driver(stage);
        let mut now = 0;
        // Nothing comes from the shell; it dies only of its own KILL.
        while let Some(due) = driver.next_deadline() {
            now = due.duration_since(start()).as_millis() as u64;
            let effects = tell(&mut driver, Event::Time, now);
            if effects.iter().filter_map(step_of).any(|step| step == Step::KillShell) {
                tell(&mut driver, Event::ShellEnded(Exit::Signal(9)), now);
            }
            if effects.contains(&Effect::CheckStragglers { exec: EXEC }) {
                tell(&mut driver, Event::Stragglers { alive: true }, now);
            }
        }
        assert!(
            matches!(driver.stage, Stage::Dead | Stage::Idle | Stage::Replacing),
            "{label}: {:?}",
            driver.stage
        );
        assert!(now <= 15_000, "{label}: {now} ms");
    }
}

#[test]
fn a_silent_prompt_is_asked_for_its_status_and_then_given_up() {
    let mut driver = running();
    assert_eq!(tell(&mut driver, Event::Prompt(Prompt::default()), 5), [Effect::AskStatus(Attempt::First)]);
    for attempt in [Attempt::Interrupt, Attempt::Again] {
        assert_eq!(tell(&mut driver, Event::Prompt(Prompt::default()), 6), [Effect::AskStatus(attempt)]);
    }
    let effects = tell(&mut driver, Event::Prompt(Prompt::default()), 7);
    let end = CommandEnd::Unknown(Unknown::NoStatus);
    assert_eq!(effects, [Effect::KillShell, finish(end, None), Effect::Note(Note::Replaced)]);
}

#[test]
fn a_stopped_command_that_never_ran_is_not_run_again() {
    let mut driver = running();
    tell(&mut driver, stop(), 5);
    let failed = Prompt { line: OwnLine::Failed { retried: false }, ..Prompt::default() };
    let effects = tell(&mut driver, Event::Prompt(failed), 6);
    assert_eq!(effects[1], finish(CommandEnd::Unknown(Unknown::NeverRan), Some(Why::Cancel)));
}

#[test]
fn a_restart_while_settling_waits_for_the_state() {
    let mut driver = running();
    tell(&mut driver, Event::Prompt(prompt(0)), 5);
    assert!(tell(&mut driver, Event::Restart, 6).is_empty());
    assert_eq!(tell(&mut driver, Event::Prompt(Prompt::default()), 7).len(), 1);
    let effects = tell(&mut driver, Event::StateRead(StateRead::Known), 7);
    assert_eq!(effects, [Effect::KillShell, Effect::Note(Note::Restarted), Effect::SpawnShell]);
    assert_eq!(
        tell(&mut driver, Event::Spawned(Fresh { restore: true, startup_files: false }), 8),
        [Effect::AnswerRestart]
    );
    assert_eq!(stage_name(&driver.stage), "Starting");
}

#[test]
fn a_restart_while_settling_is_answered_when_the_shell_dies_instead() {
    let mut driver = running();
    tell(&mut driver, Event::Prompt(prompt(0)), 5);
    tell(&mut driver, Event::Restart, 6);
    let effects = tell(&mut driver, Event::ShellEnded(Exit::Code(0)), 7);
    assert_eq!(effects.last(), Some(&Effect::SpawnShell));
    // Whatever comes of it, whoever asked is answered, once.
    assert_eq!(tell(&mut driver, Event::SpawnFailed, 8), [Effect::AnswerRestart]);
    assert_eq!(driver.stage, Stage::Dead);
    assert!(tell(&mut driver, Event::Time, 9).is_empty());
}

#[test]
fn a_restart_is_refused_while_a_command_has_the_shell() {
    let mut driver = running();
    assert_eq!(tell(&mut driver, Event::Restart, 5), [Effect::RefuseRestart]);
    assert!(!driver.restart);
}

#[test]
fn a_shell_that_waits_for_a_stray_process_is_freed_again_and_again() {
    let mut driver = running();
    tell(&mut driver, stop(), 0);
    tell(&mut driver, Event::Prompt(prompt(130)), 10);
    tell(&mut driver, Event::Stragglers { alive: false }, 10);
    for when in [210, 410, 610] {
        assert_eq!(tell(&mut driver, Event::Time, when), [Effect::EndStrays], "{when}");
    }
    // The check continues while the state is printed, and ends with it.
    tell(&mut driver, Event::Prompt(Prompt::default()), 620);
    assert_eq!(tell(&mut driver, Event::Time, 820), [Effect::EndStrays]);
    let effects = tell(&mut driver, Event::Prompt(Prompt::default()), 830);
    assert_eq!(effects, [Effect::CloseStrayWatch, Effect::ReadState { purpose: Purpose::AfterCommand }]);
    tell(&mut driver, Event::StateRead(StateRead::Known), 830);
    assert_eq!(driver.next_deadline(), None);
}

#[test]
fn a_state_that_cannot_be_read_is_asked_for_differently_before_the_shell_is_given_up() {
    let mut driver = driver(Stage::Settling {
        purpose: Purpose::AfterCommand,
        uncovered: false,
        deadline: at(5000),
        stray_check: None,
    });
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.extend(tell(&mut driver, Event::StateRead(StateRead::Unreadable), 10));
    }
    let again = |attempt, uncover| Effect::AskStateAgain { attempt, uncover };
    assert_eq!(
        asked,
        [again(Attempt::Interrupt, false), again(Attempt::Again, false), again(Attempt::First, true)]
    );
    let effects = tell(&mut driver, Event::StateRead(StateRead::Unreadable), 10);
    assert_eq!(effects, [Effect::KillShell, Effect::Note(Note::Unusable)]);
}

#[test]
fn a_large_state_gets_more_time() {
    let mut driver = running();
    tell(&mut driver, Event::Prompt(prompt(0)), 0);
    tell(&mut driver, Event::StateIsLarge, 0);
    assert!(tell(&mut driver, Event::Time, 29_000).is_empty());
    assert_eq!(tell(&mut driver, Event::Time, 30_000)[0], Effect::KillShell);
}

#[test]
fn start_up_files_are_waited_for_by_the_prompt_first() {
    let fresh = Fresh { restore: false, startup_files: true };
    let mut driver = Driver::new(Traits { may_run_nothing: false }, fresh, start());
    assert!(driver.listens_for_prompt() && !driver.watches_control());
    tell(&mut driver, Event::Time, 300);
    assert!(driver.listens_for_prompt() && driver.watches_control());
}

#[test]
fn an_interrupt_that_comes_late_does_not_meet_the_first_command() {
    let fresh = Fresh { restore: false, startup_files: true };
    let mut driver = Driver::new(Traits { may_run_nothing: false }, fresh, start());
    for _ in 0..2 {
        assert!(tell(&mut driver, Event::StartupInterrupted, 10).is_empty());
    }
    let left = [Effect::CloseStrayWatch, Effect::Restore(String::new())];
    assert_eq!(tell(&mut driver, Event::Prompt(prompt(130)), 20), left);
    assert!(!driver.is_idle());
    // One more, while that line is read.
    tell(&mut driver, Event::StartupInterrupted, 20);
    assert_eq!(tell(&mut driver, Event::Prompt(Prompt::default()), 21), [Effect::Restore(String::new())]);
    assert!(!driver.is_idle());
    assert!(tell(&mut driver, Event::Prompt(Prompt::default()), 22).is_empty());
    assert!(driver.is_idle());
}

#[test]
fn a_shell_that_does_not_leave_its_files_is_replaced_by_one_without() {
    let begin = || {
        let fresh = Fresh { restore: false, startup_files: true };
        let mut driver = Driver::new(Traits { may_run_nothing: false }, fresh, start());
        tell(&mut driver, Event::StartupInterrupted, 1000);
        driver
    };
    let replaced = |exit| {
        let failed = Effect::StartupFailed(StartupFailure::Interrupted(exit));
        [Effect::KillForeground, failed, Effect::KillShell, Effect::SpawnShell]
    };
    let mut driver = begin();
    // Asking again gives it no more time.
    tell(&mut driver, Event::StartupInterrupted, 2000);
    assert!(tell(&mut driver, Event::Time, 2999).is_empty());
    assert_eq!(tell(&mut driver, Event::Time, 3000), replaced(None));
    let fresh = Fresh { restore: false, startup_files: false };
    assert!(tell(&mut driver, Event::Spawned(fresh), 3001).is_empty());
    assert!(tell(&mut driver, Event::Prompt(prompt(0)), 3002).is_empty());
    assert!(driver.is_idle());
    let mut driver = begin();
    let ended = Exit::Code(2);
    assert_eq!(tell(&mut driver, Event::ShellEnded(ended), 1001), replaced(Some(ended)));
    // A session that ends gets no new shell.
    for event in [Event::ShellEnded(ended), Event::Time] {
        let mut driver = begin();
        tell(&mut driver, Event::EndSession, 1001);
        assert!(!tell(&mut driver, event, 9000).contains(&Effect::SpawnShell));
    }
}

#[test]
fn start_up_files_have_a_deadline_of_their_own() {
    let begin = || {
        let fresh = Fresh { restore: true, startup_files: true };
        Driver::new(Traits { may_run_nothing: false }, fresh, start())
    };
    let mut driver = begin();
    assert!(tell(&mut driver, Event::Time, 29_999).is_empty());
    let failed = Effect::StartupFailed(StartupFailure::Timeout);
    assert_eq!(tell(&mut driver, Event::Time, 30_000), [Effect::KillShell, failed]);
    let mut driver = begin();
    let failed = Effect::StartupFailed(StartupFailure::Ended(Exit::Code(3)));
    assert_eq!(tell(&mut driver, Event::ShellEnded(Exit::Code(3)), 9), [failed]);
    // Once it has prompted, the engine's own lines count.
    let mut driver = begin();
    tell(&mut driver, Event::Prompt(prompt(0)), 20_000);
    assert_eq!(tell(&mut driver, Event::Time, 25_000)[1], Effect::Note(Note::NoAnswer));
}
