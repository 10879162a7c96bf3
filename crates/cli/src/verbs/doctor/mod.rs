//! `trl doctor`: what may be wrong, what it means, what to do.
//!
//! Each check looks at one thing and says what it found even if all is well, so that
//! the report as a whole describes the machine.

mod daemon;
mod harnesses;
mod kernel;
mod places;
mod settings;
mod shells;

use serde::Serialize;
use serde_json::json;

use crate::args::Global;
use crate::config;
use crate::context::{self, Context};
use crate::failure::Result;
use crate::output::{Output, Paint};

/// Check the installation and suggest remedies
///
/// The exit status is 1 if a check fails; warnings do not count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

/// One thing looked at.
#[derive(Debug, Clone, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, state: State::Ok, found: found.into(), means: None, remedy: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, means: &str, remedy: impl Into<String>) -> Check {
        let (means, remedy) = (Some(means.to_owned()), Some(remedy.into()));
        Check { name, state: State::Warn, found: found.into(), means, remedy }
    }

    fn fail(name: &'static str, found: impl Into<String>, means: &str, remedy: impl Into<String>) -> Check {
        Check { state: State::Fail, ..Check::warn(name, found, means, remedy) }
    }
}

pub(crate) fn run(_args: &Args, global: &Global, output: Output) -> Result<u8> {
    let mut checks = settings::variables();
    checks.extend(shells::check());
    match config::load(&global.flags()) {
        Err(error) => checks.push(settings::broken(&error)),
        Ok(found) => {
            checks.push(settings::sound(&found));
            checks.extend(places::check(&found));
            let context = Context::load(global, output)?;
            checks.extend(context::block_on(daemon::check(&context))?);
        }
    }
    checks.extend(kernel::check());
    checks.extend(harnesses::check());
    let failed = count(&checks, State::Fail) > 0;
    if output.json {
        output.json(&json!({ "ok": !failed, "checks": checks }))?;
    } else {
        output.text(&report(&checks, output.paint))?;
    }
    Ok(u8::from(failed))
}

fn count(checks: &[Check], state: State) -> usize {
    checks.iter().filter(|check| check.state == state).count()
}

fn report(checks: &[Check], paint: Paint) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        let state = match check.state {
            State::Ok => paint.green("ok  "),
            State::Warn => paint.yellow("warn"),
            State::Fail => paint.red("fail"),
        };
        text.push_str(&format!("{state}  {:<width$}  {}\n", check.name, check.found));
        for line in [&check.means, &check.remedy].into_iter().flatten() {
            text.push_str(&format!("{:indent$}{}\n", "", paint.dim(line), indent = width + 8));
        }
    }
    let summary = match (count(checks, State::Fail), count(checks, State::Warn)) {
        (0, 0) => "all is well".to_owned(),
        (0, warnings) => format!("nothing failed, {warnings} warned"),
        (failures, warnings) => format!("{failures} failed, {warnings} warned"),
    };
    text + "\n" + &paint.bold(&summary) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_lines_up_and_sums_up() {
        let checks =
            [Check::ok("shells", "bash"), Check::warn("pty", "none", "No terminals.", "Mount /dev/pts.")];
        let expected = "ok    shells  bash\n\
                        warn  pty     none\n              \
                        No terminals.\n              \
                        Mount /dev/pts.\n\
                        \nnothing failed, 1 warned\n";
        assert_eq!(report(&checks, Paint(false)), expected);
    }
}
