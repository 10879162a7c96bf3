//! Who is connected, and who hears what: the daemons' connections, those who follow a command's
//! output, those who watch the whole session, and those who see it as a person does.
//!
//! It alone sends. What it keeps true: nobody is sent more bytes than the credit that was granted;
//! nobody is subscribed whose connection is gone; offsets that a follower is sent never overlap.

mod link;
mod viewers;

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use trl_protocol::exec::{ExecInfo, Stream};
use trl_protocol::fault::Fault;
use trl_protocol::session::SessionInfo;
use trl_protocol::wire::{FromHost, INITIAL_CREDIT, ToHost};

use crate::commands::{Commands, Exec, Requester};
pub(crate) use link::Link;
use link::Links;
use viewers::Viewer;

/// Bytes of one data frame.
const CHUNK: usize = 128 * 1024;
/// A follower that the command waits for may lag behind the ring by all but this much.
const RING_MARGIN: u64 = 1024 * 1024;

/// Someone who follows a command's output.
#[derive(Debug)]
struct Follower {
    who: Requester,
    exec: u64,
    next: [u64; 2],
    credit: u64,
    /// The one who started the command: the command waits for them rather than lose output.
    owner: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    links: Links,
    last_link: u64,
    followers: Vec<Follower>,
    /// Those who hear of everything that begins and ends.
    watchers: Vec<Requester>,
    viewers: Vec<Viewer>,
    /// Those who accept what the session's programs connect to as their proxy.
    proxies: Vec<Requester>,
    /// Those who wait for a new shell.
    restarters: Vec<Requester>,
    /// Those who wait for the state that the last command left.
    forkers: Vec<Requester>,
    /// For reading from the journal; as large as one frame once it was needed.
    buffer: Vec<u8>,
}

impl Subscribers {
    // Connections.

    pub(crate) fn links(&self) -> impl Iterator<Item = (u64, &Link)> {
        self.links.iter().map(|(id, link)| (*id, link))
    }

    /// Takes in a new connection.
    pub(crate) fn adopt(&mut self, mut link: Link) -> io::Result<()> {
        link.flush()?;
        rustix::io::ioctl_fionbio(&link, true)?;
        self.last_link += 1;
        self.links.insert(self.last_link, link);
        Ok(())
    }

    pub(crate) fn accept(&mut self, stream: UnixStream) -> io::Result<()> {
        self.adopt(Link::new(stream))
    }

    /// What has arrived on a connection, read through `buffer`. `Err`: the connection is over.
    pub(crate) fn receive(&mut self, link: u64, buffer: &mut [u8]) -> io::Result<Vec<ToHost>> {
        self.links.get_mut(&link).map_or(Ok(Vec::new()), |link| link.receive(buffer))
    }

    pub(crate) fn is_greeted(&self, link: u64) -> bool {
        self.links.get(&link).is_some_and(|link| link.greeted)
    }

    pub(crate) fn greet(&mut self, link: u64, welcome: &FromHost) {
        if let Some(link) = self.links.get_mut(&link) {
            link.greet(welcome);
        }
    }

    /// Forgets a connection and everything that was sent over it.
    pub(crate) fn drop_link(&mut self, id: u64) {
        self.links.remove(&id);
        self.forget(|who| who.link == id);
    }

    /// Nobody listens on this request any more.
    pub(crate) fn detach(&mut self, requester: Requester) {
        self.forget(|who| who == requester);
    }

    fn forget(&mut self, is_gone: impl Fn(Requester) -> bool) {
        self.followers.retain(|follower| !is_gone(follower.who));
        self.watchers.retain(|watcher| !is_gone(*watcher));
        self.viewers.retain(|viewer| !is_gone(viewer.who));
        self.proxies.retain(|proxy| !is_gone(*proxy));
    }

    /// Writes what waits to be sent. Gives the connections that are over.
    pub(crate) fn flush(&mut self) -> Vec<u64> {
        self.links.iter_mut().filter_map(|(id, link)| link.flush().is_err().then_some(*id)).collect()
    }

    pub(crate) fn flush_link(&mut self, link: u64) {
        if let Some(link) = self.links.get_mut(&link) {
            // A connection that is over is noticed when the loop flushes it.
            link.flush().ok();
        }
    }

    /// The last message to everyone: those who asked hear it on their requests.
    pub(crate) fn say_goodbye(&mut self, asked: &[Requester], message: impl Fn(u64) -> FromHost) {
        for (id, link) in &mut self.links {
            let requests: Vec<u64> = asked.iter().filter(|who| who.link == *id).map(|who| who.req).collect();
            for req in if requests.is_empty() { vec![0] } else { requests } {
                link.send(&message(req));
            }
            link.flush_waiting();
        }
    }

    pub(crate) fn send(&mut self, link: u64, message: &FromHost) {
        if let Some(link) = self.links.get_mut(&link) {
            link.send(message);
        }
    }

    pub(crate) fn send_data(&mut self, to: Requester, stream: Stream, offset: u64, bytes: &[u8]) {
        if let Some(link) = self.links.get_mut(&to.link) {
            link.send_data(to.req, stream, offset, bytes);
        }
    }

    pub(crate) fn refuse(&mut self, to: Requester, fault: Fault) {
        self.send(to.link, &FromHost::Fault { req: to.req, fault });
    }

    pub(crate) fn reply(&mut self, to: Requester, answer: Result<Option<FromHost>, Fault>) {
        match answer {
            Ok(Some(answer)) => self.send(to.link, &answer),
            Ok(None) => {}
            Err(fault) => self.refuse(to, fault),
        }
    }

    // Those who watch the session.

    pub(crate) fn watch(&mut self, who: Requester) {
        self.watchers.push(who);
    }

    pub(crate) fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// A command has reached its next state, or the session has a new shell.
    pub(crate) fn notify_watchers(&mut self, exec: Option<Box<ExecInfo>>, session: Option<Box<SessionInfo>>) {
        for Requester { link, req } in &self.watchers {
            if let Some(link) = self.links.get_mut(link) {
                link.send(&FromHost::Changed { req: *req, exec: exec.clone(), session: session.clone() });
            }
        }
    }

    // Those who are the session's way to the network.

    /// Hears of the socket, now and whenever it is another.
    pub(crate) fn await_listener(&mut self, who: Requester, listener: Option<BorrowedFd<'_>>) {
        self.proxies.push(who);
        self.pass_listener(who, listener);
    }

    pub(crate) fn tell_listener(&mut self, listener: Option<BorrowedFd<'_>>) {
        for who in self.proxies.clone() {
            self.pass_listener(who, listener);
        }
    }

    fn pass_listener(&mut self, who: Requester, listener: Option<BorrowedFd<'_>>) {
        let Some(listener) = listener else { return };
        match listener.try_clone_to_owned() {
            Ok(copy) => {
                if let Some(link) = self.links.get_mut(&who.link) {
                    link.pass(&FromHost::Listener { req: who.req }, copy);
                }
            }
            // Without a descriptor to spare, the connection is closed: a daemon asks again.
            Err(_) => self.drop_link(who.link),
        }
    }

    // Those who asked for a new shell.

    pub(crate) fn await_restart(&mut self, who: Requester) {
        self.restarters.push(who);
    }

    /// The last one who asked does not get one.
    pub(crate) fn withdraw_restart(&mut self) -> Option<Requester> {
        self.restarters.pop()
    }

    pub(crate) fn take_restarters(&mut self) -> Vec<Requester> {
        std::mem::take(&mut self.restarters)
    }

    pub(crate) fn await_fork(&mut self, who: Requester) {
        self.forkers.push(who);
    }

    pub(crate) fn take_forkers(&mut self) -> Vec<Requester> {
        std::mem::take(&mut self.forkers)
    }

    // Those who follow a command.

    /// From the first byte on, for the one who started it.
    pub(crate) fn follow_own(&mut self, who: Requester, exec: u64) {
        let next = [0; 2];
        self.followers.push(Follower { who, exec, next, credit: INITIAL_CREDIT, owner: true });
    }

    /// From these offsets on.
    pub(crate) fn follow(&mut self, who: Requester, exec: u64, next: [u64; 2], commands: &Commands) {
        self.followers.push(Follower { who, exec, next, credit: INITIAL_CREDIT, owner: false });
        self.pump(self.followers.len() - 1, commands);
        self.complete(commands);
    }

    /// Only the end: whoever is beyond every byte and may be sent none hears nothing else.
    pub(crate) fn await_end(&mut self, who: Requester, exec: u64, commands: &Commands) {
        self.followers.push(Follower { who, exec, next: [u64::MAX; 2], credit: 0, owner: false });
        self.complete(commands);
    }

    /// More bytes may be sent on this request.
    pub(crate) fn grant(&mut self, who: Requester, bytes: u64, commands: &Commands) {
        if let Some(index) = self.followers.iter().position(|follower| follower.who == who) {
            let follower = &mut self.followers[index];
            follower.credit = follower.credit.saturating_add(bytes);
            self.pump(index, commands);
            self.complete(commands);
        }
    }

    pub(crate) fn is_followed(&self, exec: u64) -> bool {
        self.followers.iter().any(|follower| follower.exec == exec)
    }

    pub(crate) fn followers_of(&self, exec: u64) -> Vec<Requester> {
        self.followers.iter().filter(|follower| follower.exec == exec).map(|follower| follower.who).collect()
    }

    /// Those who are sent its output.
    pub(crate) fn listeners_of(&self, exec: u64) -> Vec<Requester> {
        let listens = |follower: &&Follower| follower.exec == exec && follower.next != [u64::MAX; 2];
        self.followers.iter().filter(listens).map(|follower| follower.who).collect()
    }

    pub(crate) fn unfollow(&mut self, exec: u64) {
        self.followers.retain(|follower| follower.exec != exec);
    }

    pub(crate) fn take_followers(&mut self) -> Vec<Requester> {
        self.followers.drain(..).map(|follower| follower.who).collect()
    }

    /// Whether the command must wait until the one who started it has caught up.
    pub(crate) fn holds_back(&self, exec: &Exec, stream: Stream, commands: &Commands) -> bool {
        let caps = commands.caps();
        self.followers.iter().any(|follower| {
            follower.owner
                && follower.exec == exec.number
                && exec.journal.room_before_overwriting(stream, follower.next[stream.index()], caps)
                    < RING_MARGIN.min(caps.ring / 2)
        })
    }

    /// A command's new output, which is in the journal from `offset` on: straight on to those who
    /// have seen everything before it.
    pub(crate) fn deliver(
        &mut self,
        commands: &Commands,
        exec: u64,
        stream: Stream,
        offset: u64,
        bytes: &[u8],
    ) {
        for index in 0..self.followers.len() {
            let follower = &mut self.followers[index];
            if follower.exec != exec {
                continue;
            }
            let length = bytes.len() as u64;
            if follower.next[stream.index()] == offset && follower.credit >= length {
                follower.next[stream.index()] += length;
                follower.credit -= length;
                if let Some(link) = self.links.get_mut(&follower.who.link) {
                    link.send_data(follower.who.req, stream, offset, bytes);
                }
            } else {
                self.pump(index, commands);
            }
        }
    }

    /// Sends what the journal has and the credit allows.
    fn pump(&mut self, index: usize, commands: &Commands) {
        let follower = &mut self.followers[index];
        let (Some(exec), Some(link)) = (commands.get(follower.exec), self.links.get_mut(&follower.who.link))
        else {
            return;
        };
        for stream in Stream::BOTH {
            while follower.credit > 0 && follower.next[stream.index()] < exec.journal.total(stream) {
                self.buffer.resize(CHUNK, 0);
                let from = follower.next[stream.index()];
                let want = CHUNK.min(usize::try_from(follower.credit).unwrap_or(CHUNK));
                let (offset, read) = commands.read(exec, stream, from, &mut self.buffer[..want]);
                if offset > from {
                    link.send(&FromHost::Gap { req: follower.who.req, stream, from, to: offset });
                    follower.next[stream.index()] = offset;
                }
                if read == 0 {
                    break;
                }
                link.send_data(follower.who.req, stream, offset, &self.buffer[..read]);
                follower.next[stream.index()] = offset + read as u64;
                follower.credit -= read as u64;
            }
        }
    }

    /// Tells those who have heard everything of a finished command that it is over.
    pub(crate) fn complete(&mut self, commands: &Commands) {
        let links = &mut self.links;
        self.followers.retain(|follower| {
            let Some(done) = commands.get(follower.exec).and_then(|exec| follower.done(exec)) else {
                return true;
            };
            if let Some(link) = links.get_mut(&follower.who.link) {
                link.send(&done);
            }
            false
        });
        if self.followers.is_empty() {
            self.buffer = Vec::new();
        }
    }
}

impl Follower {
    /// The end of the command, if it is over and nothing of it is left to send.
    fn done(&self, exec: &Exec) -> Option<FromHost> {
        let outcome = exec.outcome()?;
        let caught_up = Stream::BOTH.iter().all(|s| self.next[s.index()] >= exec.journal.total(*s));
        caught_up.then(|| FromHost::Done {
            req: self.who.req,
            exec: exec.number,
            outcome: Box::new(outcome.clone()),
            dropped: Stream::BOTH.map(|s| exec.journal.dropped(s)),
        })
    }
}
