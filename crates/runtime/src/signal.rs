//! Signals as people write them.

use rustix::process::Signal;
use trl_protocol::Fault;
use trl_protocol::exec::SignalName;

const NAMES: &[(&str, Signal)] = &[
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("ABRT", Signal::ABORT),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CHLD", Signal::CHILD),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("URG", Signal::URG),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
    ("VTALRM", Signal::VTALARM),
    ("PROF", Signal::PROF),
    ("WINCH", Signal::WINCH),
    ("IO", Signal::IO),
    ("SYS", Signal::SYS),
];

pub(crate) fn number(signal: &SignalName) -> Result<i32, Fault> {
    let number = match signal {
        SignalName::Number(number) => Some(*number),
        SignalName::Name(name) => by_name(name),
    };
    number.filter(|number| (1..=64).contains(number)).ok_or_else(|| unknown(signal))
}

fn by_name(name: &str) -> Option<i32> {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        return name.parse().ok();
    }
    let upper = name.to_ascii_uppercase();
    let plain = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(known, _)| *known == plain).map(|(_, signal)| signal.as_raw())
}

fn unknown(signal: &SignalName) -> Fault {
    let written = match signal {
        SignalName::Number(number) => number.to_string(),
        SignalName::Name(name) => format!("{:?}", name.chars().take(40).collect::<String>()),
    };
    Fault::invalid(format!(
        "param `signal`: {written} is not a signal; give a name such as INT, SIGTERM or KILL, or a number from 1 to 64"
    ))
    .with_details(serde_json::json!({ "field": "signal" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let name = |text: &str| SignalName::Name(text.to_owned());
        for (written, expected) in
            [("INT", 2), ("int", 2), ("SIGINT", 2), ("sigkill", 9), ("9", 9), ("TERM", 15), ("64", 64)]
        {
            assert_eq!(number(&name(written)), Ok(expected), "{written}");
        }
        assert_eq!(number(&SignalName::Number(1)), Ok(1));
        for bad in ["", "SIG", "NOPE", "0", "65", "-1", "99999999999"] {
            assert!(number(&name(bad)).is_err(), "{bad}");
        }
        for bad in [0, -9, 65] {
            assert!(number(&SignalName::Number(bad)).is_err(), "{bad}");
        }
    }
}
