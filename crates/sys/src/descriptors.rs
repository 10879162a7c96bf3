//! Descriptors that are passed to another process, along with bytes, over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// At most so many come with one message.
pub const MOST: usize = 8;

/// Sends bytes, of which a stream may take a part only; the descriptors go with the first of them.
pub fn send(to: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut extra = SendAncillaryBuffer::new(&mut space);
    let fits = fds.is_empty() || fds.len() <= MOST && extra.push(SendAncillaryMessage::ScmRights(fds));
    if !fits {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(sendmsg(to, &[IoSlice::new(bytes)], &mut extra, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and the descriptors that came with them. No bytes are the end.
pub fn receive(from: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut extra, flags)?;
    let mut fds = Vec::new();
    for message in extra.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((received.bytes, fds))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_bytes_and_are_not_inherited() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut read, write) = io::pipe().unwrap();
        assert_eq!(send(&ours, b"ab", &[write.as_fd()]).unwrap(), 2);
        drop(write);
        let mut bytes = [0; 8];
        let (count, mut fds) = receive(&theirs, &mut bytes, RecvFlags::empty()).unwrap();
        assert_eq!((&bytes[..count], fds.len()), (&b"ab"[..], 1));
        let passed = fds.remove(0);
        assert!(rustix::io::fcntl_getfd(&passed).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        let mut passed = std::fs::File::from(passed);
        passed.write_all(b"through it").unwrap();
        drop(passed);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through it");
        assert_eq!(send(&ours, b"c", &[]).unwrap(), 1);
        drop(ours);
        assert_eq!(receive(&theirs, &mut bytes, RecvFlags::empty()).unwrap().0, 1);
        assert_eq!(receive(&theirs, &mut bytes, RecvFlags::empty()).unwrap().0, 0, "the end");
        let fds = [theirs.as_fd(); MOST + 1];
        assert_eq!(send(&theirs, b"d", &fds).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
