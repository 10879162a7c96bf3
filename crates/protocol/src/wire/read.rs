//! Messages from their JSON. The two that every command needs are read as they are; for an enum whose variant
//! is named by a field, everything is first taken apart and stored.

use serde::Deserialize;

use super::{FromHost, RunSpec, ToHost};
use crate::exec::Outcome;

impl ToHost {
    pub fn read(json: &[u8]) -> serde_json::Result<ToHost> {
        #[derive(Deserialize)]
        struct Run {
            req: u64,
            run: Box<RunSpec>,
        }
        if json.starts_with(br#"{"op":"run","#) {
            let Run { req, run } = serde_json::from_slice(json)?;
            return Ok(ToHost::Run { req, run });
        }
        serde_json::from_slice(json)
    }
}

impl FromHost {
    pub fn read(json: &[u8]) -> serde_json::Result<FromHost> {
        #[derive(Deserialize)]
        struct Done {
            req: u64,
            exec: u64,
            outcome: Box<Outcome>,
            dropped: [u64; 2],
        }
        if json.starts_with(br#"{"op":"done","#) {
            let Done { req, exec, outcome, dropped } = serde_json::from_slice(json)?;
            return Ok(FromHost::Done { req, exec, outcome, dropped });
        }
        serde_json::from_slice(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_same_however_it_is_read() {
        let spec = r#"{"command":"a\n\"b\"","stdin":{"whole":"eA=="},"env":{"A":"1"},"working_dir":null,
            "max_output":5,"mode":"stream","wait_ms":7,"background":true,"tty":false,"of_a_newer_daemon":[1]}"#;
        let outcome = r#"{"exit_code":3,"duration_ms":1,"duration_us":2,"timed_out":false,"cancelled":true,
            "stdout_bytes":4,"stderr_bytes":5,"working_dir":"/x","notes":["n"],"limit":"pids","new":{}}"#;
        for json in [
            format!(r#"{{"op":"run","req":1,"run":{spec}}}"#),
            format!(r#"{{"op":"run","later":null,"run":{spec},"req":1}}"#),
            format!(r#"{{"req":1,"op":"run","run":{spec}}}"#),
            r#"{"op":"cancel","req":2,"exec":null,"signal":null}"#.to_owned(),
        ] {
            let read = ToHost::read(json.as_bytes()).unwrap();
            assert_eq!(read, serde_json::from_str(&json).unwrap(), "{json}");
            assert_eq!(ToHost::read(&serde_json::to_vec(&read).unwrap()).unwrap(), read);
        }
        for json in [
            format!(r#"{{"op":"done","req":1,"exec":2,"outcome":{outcome},"dropped":[1,2]}}"#),
            format!(r#"{{"exec":2,"op":"done","req":1,"dropped":[1,2],"outcome":{outcome}}}"#),
            r#"{"op":"taken","req":2}"#.to_owned(),
        ] {
            let read = FromHost::read(json.as_bytes()).unwrap();
            assert_eq!(read, serde_json::from_str(&json).unwrap(), "{json}");
            assert_eq!(FromHost::read(&serde_json::to_vec(&read).unwrap()).unwrap(), read);
        }
        for bad in [r#"{"op":"run","req":1}"#, r#"{"op":"run","#, r#"{"op":"runs","req":1}"#, "{}"] {
            assert!(ToHost::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_begins_as_it_is_read() {
        let run: RunSpec = serde_json::from_str(
            r#"{"command":":","stdin":"empty","env":{},"working_dir":null,"max_output":1,"mode":"collect",
                "wait_ms":0,"background":false,"tty":false}"#,
        )
        .unwrap();
        let written = serde_json::to_string(&ToHost::Run { req: 1, run: Box::new(run) }).unwrap();
        assert!(written.starts_with(r#"{"op":"run","#), "{written}");
        let done = FromHost::Done { req: 1, exec: 1, outcome: Box::default(), dropped: [0; 2] };
        let written = serde_json::to_string(&done).unwrap();
        assert!(written.starts_with(r#"{"op":"done","#), "{written}");
    }
}
