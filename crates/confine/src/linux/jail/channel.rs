//! Messages with descriptors, between the host and what it has inside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use trl_sys::descriptors;

/// Longest message; what may be longer goes into a file of its own.
const MOST_BYTES: usize = 4096;

#[derive(Debug)]
pub(in crate::linux) struct Received<T> {
    pub message: T,
    pub fds: Vec<OwnedFd>,
}

/// Two ends that keep messages apart.
pub(in crate::linux) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

pub(in crate::linux) fn send(
    to: impl AsFd,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    loop {
        match descriptors::send(&to, &text, fds) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// None when the other end is gone.
pub(in crate::linux) fn receive<T: DeserializeOwned>(from: impl AsFd) -> io::Result<Option<Received<T>>> {
    receive_with(from, RecvFlags::empty())
}

pub(in crate::linux) fn receive_with<T: DeserializeOwned>(
    from: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<Received<T>>> {
    let mut buffer = [0; MOST_BYTES];
    let (received, fds) = descriptors::receive(from, &mut buffer, flags)?;
    if received == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(&buffer[..received])?;
    Ok(Some(Received { message, fds }))
}

/// A file in memory with a text of any length.
pub(in crate::linux) fn file_with(text: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"trl", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut rest = text;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = &rest[written..];
    }
    Ok(file)
}

pub(in crate::linux) fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let (mut text, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match rustix::io::pread(file, &mut buffer, text.len() as u64)? {
            0 => return Ok(text),
            read => text.extend_from_slice(&buffer[..read]),
        }
    }
}
