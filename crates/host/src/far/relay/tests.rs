use std::io::{Read as _, Write as _};

use trl_protocol::SessionId;
use trl_protocol::resume::MAX_UNACKED;

use super::*;
use crate::far::place;

/// The paths of a session whose host is listened for by the test.
fn session() -> (tempfile::TempDir, SessionPaths, UnixListener) {
    let dir = tempfile::tempdir().unwrap();
    let place = place::of(dir.path(), SessionId(7));
    place::make(dir.path(), &place).unwrap();
    let host = bind(&place.socket).unwrap();
    (dir, place, host)
}

fn relay(place: &SessionPaths) -> Relay<'_> {
    let relay = Relay::new(place, bind(&place.relay).unwrap());
    relay.listener.set_nonblocking(true).unwrap();
    relay
}

/// A daemon that has come and greeted: its end, and that of the process that brought it.
fn come(place: &SessionPaths, received: Option<u64>) -> (UnixStream, UnixStream) {
    let (mut near, far) = UnixStream::pair().unwrap();
    let bringer = UnixStream::connect(&place.relay).unwrap();
    hand_over(&bringer, &far, &far).unwrap();
    near.write_all(&Greeting { token: [1; 16], received }.to_bytes()).unwrap();
    (near, bringer)
}

fn turn(relay: &mut Relay<'_>) {
    let ready = relay.wait().unwrap().unwrap();
    relay.handle(&ready).unwrap();
}

fn is_received(daemon: &mut UnixStream) {
    let mut reception = [0; Reception::BYTES];
    daemon.read_exact(&mut reception).unwrap();
    assert_eq!(Reception::parse(&reception), Ok(Reception::Continue(0)));
}

#[test]
fn the_end_of_a_daemon_is_not_taken_for_that_of_the_next() {
    let (_dir, place, host) = session();
    let mut relay = relay(&place);
    let (mut first, bringer) = come(&place, None);
    turn(&mut relay);
    is_received(&mut first);
    let (mut host, _) = host.accept().unwrap();

    // Both are known at once: that one is gone, and that the next is there.
    drop((first, bringer));
    let (mut next, _bringer) = come(&place, Some(0));
    turn(&mut relay);
    is_received(&mut next);
    host.write_all(b"x").unwrap();
    turn(&mut relay);
    let mut frame = [0; 6];
    next.read_exact(&mut frame).unwrap();
    assert_eq!(&frame, b"D\x01\0\0\0x");
}

#[test]
fn a_daemon_whose_stream_goes_on_elsewhere_gets_no_more_of_it() {
    let (_dir, place, _host) = session();
    let mut relay = relay(&place);
    let (mut first, _bringer) = come(&place, None);
    turn(&mut relay);
    is_received(&mut first);
    drop(come(&place, Some(0)));
    turn(&mut relay);
    first.set_nonblocking(true).unwrap();
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0, "its connection is closed");
    let (mut next, _bringer) = come(&place, Some(0));
    turn(&mut relay);
    is_received(&mut next);
}

#[test]
fn the_end_of_a_host_waits_for_room_without_being_looked_at_again_and_again() {
    let (_dir, place, host) = session();
    let mut relay = relay(&place);
    let (daemon, bringer) = come(&place, None);
    turn(&mut relay);
    drop((daemon, bringer));
    turn(&mut relay);
    assert!(relay.daemon.is_none());

    // All that may be kept is kept, and the host ends while something is on its way to it.
    let stream = relay.stream.as_mut().unwrap();
    stream.end.push(&vec![0; MAX_UNACKED]);
    stream.to_host.push(0);
    drop(host.accept().unwrap());
    turn(&mut relay);
    let _visitor = UnixStream::connect(&place.relay).unwrap();
    let ready = relay.wait().unwrap().unwrap();
    assert!(ready.listener && ready.host.is_empty(), "{ready:?}");
    assert!(!relay.is_over(), "what it said is still to be told");
}
