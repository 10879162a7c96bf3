//! A port for a server that is told its port and keeps it across restarts.

use std::net::{Ipv4Addr, SocketAddr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A port on 127.0.0.1 that nobody else is given while this process lives.
///
/// It is bound here and never listened at. A server that sets `SO_REUSEADDR`, as all do that the tests start, can
/// listen there; the kernel gives it neither to others who ask for any port, nor to connections.
pub fn own_port() -> u16 {
    let held =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
    sockopt::set_socket_reuseaddr(&held, true).expect("SO_REUSEADDR");
    bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = SocketAddr::try_from(getsockname(&held).expect("its name")).expect("an internet address");
    std::mem::forget(held);
    address.port()
}
