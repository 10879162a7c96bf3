//! SOCKS5 (RFC 1928): connections without authentication; names stay names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::AsyncWriteExt as _;
use trl_confine::hosts::{Host, Target};

use super::client::{Client, Tunnel};
use super::{Proxy, Refusal};

pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

const FAILED: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// The bound address is of no use to anybody.
const CONNECTED: &[u8] = &[VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0];

pub(super) async fn tunnel(proxy: &Proxy, client: &mut Client) -> io::Result<Option<Tunnel>> {
    let greeting = client.take(2).await?;
    let methods = client.take(usize::from(greeting[1])).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        client.stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(None);
    }
    client.stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let target = match request(client).await? {
        Ok(target) => target,
        Err(code) => return refuse(client, code).await,
    };
    match proxy.connect(&target).await {
        Ok(server) => Ok(Some(Tunnel { server, first: Vec::new(), answer: CONNECTED })),
        Err(Refusal::NotListed(_) | Refusal::Private(..)) => refuse(client, NOT_ALLOWED).await,
        Err(Refusal::Unknown(..)) => refuse(client, HOST_UNREACHABLE).await,
        Err(Refusal::Unreachable(_, error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            refuse(client, REFUSED).await
        }
        Err(Refusal::Unreachable(..)) => refuse(client, HOST_UNREACHABLE).await,
    }
}

async fn refuse(client: &mut Client, code: u8) -> io::Result<Option<Tunnel>> {
    client.stream.write_all(&[VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok(None)
}

/// What is asked for, or the code of the refusal.
async fn request(client: &mut Client) -> io::Result<Result<Target, u8>> {
    let head = client.take(4).await?;
    let host = match head[3] {
        1 => {
            let bytes: [u8; 4] = client.take(4).await?.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
            Some(Host::Address(IpAddr::V4(Ipv4Addr::from(bytes))))
        }
        3 => {
            let length = client.take(1).await?[0];
            let name = client.take(usize::from(length)).await?;
            std::str::from_utf8(&name).ok().and_then(Host::parse)
        }
        4 => {
            let bytes: [u8; 16] =
                client.take(16).await?.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
            Host::parse(&Ipv6Addr::from(bytes).to_string())
        }
        _ => return Ok(Err(ADDRESS_NOT_SUPPORTED)),
    };
    let port = client.take(2).await?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    Ok(match (head[0], head[1], host) {
        (VERSION, CONNECT, Some(host)) => Ok(Target { host, port }),
        (VERSION, CONNECT, None) => Err(ADDRESS_NOT_SUPPORTED),
        (VERSION, _, _) => Err(COMMAND_NOT_SUPPORTED),
        _ => Err(FAILED),
    })
}
