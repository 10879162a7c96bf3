//! Those who are attached to the session and see it as a person does.
//!
//! A viewer who cannot keep up is not waited for: the screen is drawn anew when there is credit
//! again.

use trl_protocol::exec::Stream;
use trl_protocol::wire::{FromHost, INITIAL_CREDIT, Released};

use super::Subscribers;
use super::link::Links;
use crate::commands::Requester;

/// Most bytes of one data frame.
const PIECE: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) who: Requester,
    credit: u64,
    /// The viewer has missed something and is sent the whole screen when there is credit.
    behind: bool,
    /// The one who types, and whose window gives the size.
    writer: bool,
}

impl Subscribers {
    /// One more, who sees everything from the scrollback on. `shown` bytes were shown before.
    pub(crate) fn add_viewer(&mut self, who: Requester, writer: bool, shown: u64, history: &[u8]) {
        let mut viewer = Viewer { who, credit: INITIAL_CREDIT, behind: false, writer };
        for piece in history.chunks(PIECE) {
            viewer.send(&mut self.links, shown, piece);
        }
        self.viewers.push(viewer);
    }

    pub(crate) fn has_viewers(&self) -> bool {
        !self.viewers.is_empty()
    }

    /// Whether somebody types here.
    pub(crate) fn has_writer(&self) -> bool {
        self.viewers.iter().any(|viewer| viewer.writer)
    }

    /// Sends the one who types away, with the reason.
    pub(crate) fn release_writer(&mut self, reason: Released) {
        let links = &mut self.links;
        self.viewers.retain(|viewer| {
            if let (true, Some(link)) = (viewer.writer, links.get_mut(&viewer.who.link)) {
                link.send(&FromHost::Released { req: viewer.who.req, reason });
            }
            !viewer.writer
        });
    }

    /// Shows these bytes to everyone who keeps up.
    pub(crate) fn show(&mut self, offset: u64, bytes: &[u8]) {
        for viewer in &mut self.viewers {
            if viewer.behind || viewer.credit < bytes.len() as u64 {
                viewer.behind = true;
            } else {
                viewer.send(&mut self.links, offset, bytes);
            }
        }
    }

    /// More bytes may be sent to a viewer. `redraw` draws the whole screen.
    pub(crate) fn grant_viewer(
        &mut self,
        who: Requester,
        bytes: u64,
        shown: u64,
        redraw: impl FnOnce() -> Vec<u8>,
    ) {
        let Some(viewer) = self.viewers.iter_mut().find(|viewer| viewer.who == who) else { return };
        viewer.credit = viewer.credit.saturating_add(bytes);
        if viewer.behind {
            let screen = redraw();
            // A screen larger than all credit is sent at once too.
            if viewer.credit >= (screen.len() as u64).min(INITIAL_CREDIT / 2) {
                viewer.behind = false;
                viewer.send(&mut self.links, shown, &screen);
            }
        }
    }
}

impl Viewer {
    fn send(&mut self, links: &mut Links, offset: u64, bytes: &[u8]) {
        self.credit = self.credit.saturating_sub(bytes.len() as u64);
        if let Some(link) = links.get_mut(&self.who.link) {
            link.send_data(self.who.req, Stream::Stdout, offset, bytes);
        }
    }
}
