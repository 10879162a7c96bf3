//! A port in the network of an isolated session, which nobody outside can connect to. The kernel's table of that
//! network tells who listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// `TCP_LISTEN` as that table writes it.
const LISTENS: &str = "0A";

/// The addresses of the session's own that listen on the port, by a process that is in its network.
pub(super) fn listeners(pid: u32, port: u16) -> Vec<IpAddr> {
    let table = |name: &str| {
        let path = PathBuf::from(format!("/proc/{pid}/net/{name}"));
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let mut found: Vec<IpAddr> = of_table(&table("tcp"), port);
    found.extend(of_table(&table("tcp6"), port));
    found
}

/// Lines are `sl local_address rem_address st …`; an address is words of four bytes in this machine's order.
fn of_table(table: &str, port: u16) -> Vec<IpAddr> {
    let listens = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        let (address, at) = local.split_once(':')?;
        (state == LISTENS && u16::from_str_radix(at, 16) == Ok(port)).then(|| read_address(address))?
    };
    table.lines().filter_map(listens).collect()
}

fn read_address(text: &str) -> Option<IpAddr> {
    let mut bytes = Vec::new();
    for at in (0..text.len()).step_by(8) {
        let word = u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    if let Ok(four) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes.as_slice()).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_in_the_table() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listeners(std::process::id(), port), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        let connected = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 0100007F:0050 01 0:0\n";
        assert_eq!(of_table(connected, 8080), Vec::<IpAddr>::new());
        assert_eq!(of_table("   0: 0100007F:1F90 00000000:0000 0A 0:0", 8081), Vec::<IpAddr>::new());
        assert_eq!(of_table("   0: 0100", 8080), Vec::<IpAddr>::new());
    }
}
