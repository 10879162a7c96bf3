//! The process that keeps a conversation over there, without SSH in front of it.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use trl_protocol::resume::{Greeting, Reception};

#[test]
fn the_relay_of_an_older_version_gives_way() {
    let base = tempfile::tempdir().unwrap();
    let hosts = base.path().join("hosts");
    std::fs::create_dir(&hosts).unwrap();
    let host = UnixListener::bind(hosts.join("s-00000007.sock")).unwrap();
    let old = UnixListener::bind(hosts.join("s-00000007.relay")).unwrap();
    let mut connect = Command::new(trl_testkit::trl!())
        .args(["host", "--connect"])
        .arg(base.path())
        .arg("s-00000007")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (connect.stdin.take().unwrap(), connect.stdout.take().unwrap());
    to.write_all(&Greeting { token: [1; 16], received: None }.to_bytes()).unwrap();
    let mut reception = [0; Reception::BYTES];
    from.read_exact(&mut reception).unwrap();
    assert_eq!(Reception::parse(&reception), Ok(Reception::Continue(0)));

    // What an older version takes for the end of the session, whose former daemon is gone.
    old.set_nonblocking(true).unwrap();
    let mut dismissal = Vec::new();
    old.accept().unwrap().0.read_to_end(&mut dismissal).unwrap();
    assert_eq!(dismissal, [b'Q'; Greeting::BYTES]);

    drop((host.accept().unwrap(), to));
    assert!(connect.wait().unwrap().success());
}
