//! Random sequences of everything at once, against a simple model of what the shell must hold.
//!
//! The sequence is drawn from a seed that a failure prints; `TESTKIT_SEED` repeats it. One that goes
//! wrong is made as short as it gets.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{
    Daemon, Dice, GUARD, Ran, Session, Shell, daemon, in_each_shell, process, smallest, wait_until,
};

/// How often a sequence that went wrong is tried again with fewer steps.
const SHRINKING: usize = 25;

/// What the living shell must answer.
struct Model {
    counter: i64,
    directory: String,
    status: i64,
    runs: usize,
}

struct Life {
    daemon: Daemon,
    session: Session,
    model: Model,
}

impl Life {
    /// One random thing that happens; the model knows what it changes.
    fn step(&mut self, what: usize, how: usize) {
        match what {
            0..=3 => self.count(how),
            4 => self.fail(how),
            5 => self.move_to(how),
            6 => self.time_out(how),
            7 => self.cancel(),
            8 => self.die(how),
            9 => self.crash(),
            10 => self.print_a_lot(),
            11 => self.in_background(how),
            12 => self.break_syntax(),
            13 => self.lose_the_host(),
            14 => self.queue(how),
            _ => self.check(),
        }
    }

    fn run(&mut self, params: serde_json::Value) -> Ran {
        self.model.runs += 1;
        self.session.run_with(params)
    }

    fn count(&mut self, how: usize) {
        self.model.counter += how as i64;
        let expected = format!("{}\n", self.model.counter);
        self.run(json!({"command": format!("n=$((n+{how})); echo $n"), "env": {"ONCE": "x"}}))
            .exits(0)
            .prints(&expected, "");
        self.model.status = 0;
    }

    fn fail(&mut self, how: usize) {
        self.model.status = how as i64 + 1;
        let command = format!("(exit {})", self.model.status);
        let status = self.model.status;
        self.run(json!({"command": command})).exits(status).quietly_or_told();
    }

    fn move_to(&mut self, how: usize) {
        self.model.directory = self.session.dir.join(format!("d{how}")).display().to_string();
        let command = format!("mkdir -p '{0}' && cd '{0}'", self.model.directory);
        self.run(json!({"command": command, "working_dir": "/"}));
        // A directory of its own is left again, so the move has to be made without one.
        self.run(json!({"command": command})).exits(0);
        self.model.status = 0;
    }

    fn time_out(&mut self, how: usize) {
        let command =
            ["sleep 30", "while :; do :; done", "sleep 30 | cat", "sh -c 'trap \"\" INT; sleep 30; :'"]
                [how % 4];
        let ran = self.run(json!({"command": format!("{command}; n=wrong"), "timeout_s": 0.05}));
        assert!(ran.timed_out, "{ran:?}");
        self.model.status = ran.exit_code.unwrap_or(-1);
    }

    fn cancel(&mut self) {
        self.model.runs += 1;
        let (request, exec_id) =
            self.session.stream_until(json!({"command": "echo up; sleep 30; n=wrong"}), "up\n");
        self.session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
        let data = self.session.connection.finish(request).data();
        assert_eq!(data["cancelled"], true, "{data}");
        self.model.status = data["exit_code"].as_i64().unwrap_or(-1);
    }

    fn die(&mut self, how: usize) {
        let (command, status) = [("exit 3", 3), ("kill -9 $$", 137), ("exec sh -c 'exit 5'", 5)][how % 3];
        self.run(json!({"command": format!("echo before; {command}; n=wrong")}))
            .exits(status)
            .prints("before\n", "");
        // A new shell has run nothing yet.
        self.model.status = 0;
        self.run(json!({"command": "true"})).exits(0).tells_of_the_shell();
    }

    fn crash(&mut self) {
        self.daemon.restart();
        self.session.connection = self.daemon.connect();
    }

    fn lose_the_host(&mut self) {
        // What the shell holds is on disk before the next command runs.
        self.run(json!({"command": ":"})).exits(0);
        self.session.kill_host();
        wait_until("the session is lost", GUARD, || self.session.info()["state"] == "lost");
        assert_eq!(self.session.info()["command_count"], self.model.runs);
        let params = self.session.params(json!({}));
        self.session.connection.ok(m::SessionRestart::NAME, params);
        self.run(json!({"command": "true"})).exits(0).tells_of_the_shell();
        self.model.status = 0;
    }

    /// Commands that wait for each other, one of them taken back, and the daemon killed meanwhile.
    fn queue(&mut self, how: usize) {
        let begin = |session: &mut Session, command: String| {
            session.start(json!({"command": command, "background": false, "wait_s": 60}))
        };
        let gate = self.session.dir.join("gate").display().to_string();
        begin(&mut self.session, format!("while [ ! -e '{gate}' ]; do sleep 0.01; done; rm -f '{gate}'"));
        let added = begin(&mut self.session, format!("n=$((n+{how}))"));
        let taken_back = begin(&mut self.session, "n=wrong".to_owned());
        let last = begin(&mut self.session, "echo $n".to_owned());
        self.session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": taken_back}));
        if how.is_multiple_of(2) {
            self.crash();
        }
        std::fs::write(&gate, "").unwrap_or_default();
        self.model.counter += how as i64;
        self.model.runs += 3;
        assert_eq!(
            self.session.attach(&last).output("stdout"),
            format!("{}\n", self.model.counter).as_bytes()
        );
        assert_eq!(self.session.exec_info(&added)["exit_code"], 0);
        assert_eq!(self.session.exec_info(&taken_back)["cancelled"], true);
        self.model.status = 0;
    }

    fn print_a_lot(&mut self) {
        let ran = self.run(json!({"command": "head -c 300000 /dev/zero | tr '\\0' x; echo err >&2", "max_output_bytes": 100}));
        assert_eq!((ran.stdout_bytes, ran.stderr_bytes), (300_000, 4));
        self.model.status = 0;
    }

    fn in_background(&mut self, how: usize) {
        self.model.runs += 1;
        let exec_id = self.session.start(json!({"command": format!("n=wrong; echo {how}")}));
        assert_eq!(self.session.attach(&exec_id).output("stdout"), format!("{how}\n").as_bytes());
    }

    fn break_syntax(&mut self) {
        self.model.status = self.session.shell.syntax_error();
        let status = self.model.status;
        self.run(json!({"command": "n=wrong; echo 'never"})).exits(status);
    }

    fn check(&mut self) {
        let Model { counter, directory, status, .. } = &self.model;
        let expected = format!("{status} {counter} {directory} unset\n");
        self.run(json!({"command": "echo \"$? $n $PWD ${ONCE-unset}\""})).exits(0).prints(&expected, "");
        self.model.status = 0;
        assert_eq!(self.session.info()["command_count"], self.model.runs);
    }
}

/// A step may be the first after a death, and then says so.
trait QuietlyOrTold {
    fn quietly_or_told(self);
}

impl QuietlyOrTold for Ran {
    #[track_caller]
    fn quietly_or_told(self) {
        assert!(self.notes.is_empty() || self.has_note("shell"), "{self:?}");
    }
}

/// Lives through these steps with a new daemon; false if it went wrong, which has been printed.
fn lives(shell: Shell, steps: &[(usize, usize)]) -> bool {
    let life = || {
        let daemon = daemon!();
        let mut session = daemon.session_with(shell, json!({"timeout_s": 20}));
        session.ok("n=0");
        let directory = session.dir.display().to_string();
        let mut life = Life { daemon, session, model: Model { counter: 0, directory, status: 0, runs: 1 } };
        for (what, how) in steps {
            life.step(*what, *how);
        }
        life.check();
        let host = life.session.host_pid();
        let left = process::descendants(host);
        assert_eq!(left.len(), 1, "only the shell is left: {left:?}");
    };
    std::panic::catch_unwind(life).is_ok()
}

fn a_long_life_holds_what_it_should(shell: Shell) {
    let mut dice = Dice::from_environment();
    let seed = dice.seed();
    let steps: Vec<_> = (0..60).map(|_| (dice.roll(18), dice.roll(7))).collect();
    let wrong =
        (!lives(shell, &steps)).then(|| smallest(steps.clone(), SHRINKING, |fewer| !lives(shell, fewer)));
    assert_eq!(wrong, None, "TESTKIT_SEED={seed} {shell:?}: these steps go wrong, of {steps:?}");
}

in_each_shell!(a_long_life_holds_what_it_should);
