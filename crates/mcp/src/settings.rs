//! What a server must be told, since it looks nothing up by itself.

use std::time::Duration;

use trl_protocol::SessionId;
use trl_protocol::session::CreateParams;

use crate::profile::Profile;

/// How a client with channels is told of new mail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Channel {
    /// As `Notice`, but others announce the message too: the client may know no channels.
    #[default]
    Unset,
    /// By sender and id.
    Notice,
    /// With the text, framed as another's.
    Message,
    Off,
}

impl Channel {
    pub fn named(text: &str) -> Option<Channel> {
        match text.trim() {
            "notice" => Some(Channel::Notice),
            "message" => Some(Channel::Message),
            "off" => Some(Channel::Off),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub profile: Profile,
    /// Results carry fields beside the text, and tools say which. For programs: clients that get
    /// fields show them to the model instead of the text.
    pub structured: bool,
    /// Where and with what environment sessions begin that are made for a client.
    pub new_session: CreateParams,
    /// The agent that mail is read and sent as, unless a call names another.
    pub agent: Option<String>,
    /// The label that its mail session wishes for.
    pub label: Option<String>,
    /// The session of ours that the client itself runs in.
    pub terminal: Option<SessionId>,
    /// The harness's own id of its session, which brings a mail label back.
    pub harness_session_id: Option<String>,
    /// The project directory of the harness session, for assignments of agents.
    pub project: Option<String>,
    /// Become a session of the agent that is given or assigned before the model asks for it, so that mail
    /// finds an idle session. Needs the harness's id of its session.
    pub present: bool,
    /// What the harness is called, where the environment tells: the stem of mail labels.
    pub harness: Option<String>,
    /// The process that the client lives by.
    pub pid: Option<u32>,
    /// Only for a client on stdio.
    pub channel: Channel,
    /// A client that has said nothing for so long over HTTP is gone; `None` is never.
    pub silence: Option<Duration>,
    /// Our version, told to clients.
    pub version: String,
}

impl Settings {
    pub fn new(version: &str) -> Settings {
        Settings {
            profile: Profile::default(),
            structured: false,
            new_session: CreateParams::default(),
            agent: None,
            label: None,
            terminal: None,
            harness_session_id: None,
            project: None,
            present: false,
            harness: None,
            pid: None,
            channel: Channel::Off,
            silence: None,
            version: version.to_owned(),
        }
    }
}
