//! One file per verb: its flags, the call, what it prints, its exit status.

pub(crate) mod agent;
pub(crate) mod autorespond;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod confine;
pub(crate) mod contacts;
pub(crate) mod doctor;
pub(crate) mod envelope;
pub(crate) mod inbox;
pub(crate) mod info;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod reply;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod send;
pub(crate) mod send_input;
pub(crate) mod sent;
pub(crate) mod serve;
pub(crate) mod sh;
pub(crate) mod shutdown;
pub(crate) mod version;
