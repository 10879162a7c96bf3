//! What ends with the connection that asked for it, and what does not.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Shell, daemon, in_each_shell, process};

fn a_bound_command_is_cancelled_with_its_connection(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let bound = session.start(json!({"command": "sleep 30", "background": true}));
    let free = session.start(json!({"command": "sleep 31", "background": true}));
    let mut other = daemon.connect();
    let told = other.ok(m::ExecBind::NAME, json!({"exec_id": bound}));
    assert_eq!(told, json!({"exec_id": bound, "bound": true}));
    drop(other);
    assert_eq!(session.attach(&bound).data()["cancelled"], true);
    assert_eq!(session.exec_info(&free)["state"], "running");
    session.survives();
}

fn a_bound_session_ends_with_its_connection(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let pid = session.pid();
    let mut other = daemon.connect();
    for bound in [true, false, true] {
        let told = other.ok(m::SessionBind::NAME, json!({"session_id": session.id, "bound": bound}));
        assert_eq!(told, json!({"session_id": session.id, "bound": bound}));
    }
    drop(other);
    process::assert_ends("the shell", pid);
}

in_each_shell!(a_bound_command_is_cancelled_with_its_connection, a_bound_session_ends_with_its_connection);
