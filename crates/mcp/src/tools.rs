//! One file per tool.

mod cancel;
mod end_session;
mod files;
mod input;
mod keys;
mod list_sessions;
mod mail;
mod output;
pub(crate) mod run;
mod screen;
mod wait;

use crate::toolbox::Entry;

/// Every tool, in the order in which a model reads of them.
pub(crate) fn all() -> Vec<Entry> {
    let mut all = vec![
        Entry::of::<run::Run>(),
        Entry::of::<output::Output>(),
        Entry::of::<input::Input>(),
        Entry::of::<screen::Screen>(),
        Entry::of::<wait::Wait>(),
        Entry::of::<cancel::Cancel>(),
        Entry::of::<list_sessions::ListSessions>(),
        Entry::of::<end_session::EndSession>(),
    ];
    all.extend(mail::all());
    all.extend(files::all());
    all
}
