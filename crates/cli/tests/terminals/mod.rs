//! Commands on a terminal, and people who attach to a session.

mod attach;
mod terminal;
