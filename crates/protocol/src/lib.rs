//! What can be said to Terminal Runtime, and nothing about how it is done.
//!
//! Every transport turns bytes into a [`Request`] and back from a reply, an
//! event or a [`Fault`]; the runtime sees only these. The host's wire (daemon to
//! session host) lives in [`wire`]. No I/O, no clock, no terminal in here.

pub mod agent;
pub mod change;
pub mod contact;
pub mod event;
pub mod exec;
pub mod fault;
pub mod file;
pub mod frame;
pub mod grant;
pub mod ids;
pub mod isolation;
pub mod json_text;
pub mod limits;
pub mod mail;
pub mod method;
pub mod quote;
mod registry;
mod registry_macro;
pub mod request;
pub mod resume;
pub mod session;
pub mod system;
pub mod wire;

pub use event::Event;
pub use fault::{Code, Fault};
pub use ids::{ExecId, SessionId};
pub use method::{Method, MethodInfo, Retry, Scope};
pub use registry::{METHODS, MailReply, MailRequest, Reply, Request, methods};

/// Version of the client protocol, told by `system.info`.
pub const PROTOCOL_VERSION: u32 = 1;

/// The JSON Schema of what we write: a field that is always there is required, even one that may be null.
fn written_schema<T: schemars::JsonSchema>() -> schemars::Schema {
    schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>()
}
