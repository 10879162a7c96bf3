//! What is asked of a session, as it comes over the wire.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Create {
    #[serde(default)]
    pub(crate) startup_source: Vec<String>,
    #[serde(default = "default_session")]
    pub(crate) session: String,
    #[serde(default = "one_second")]
    pub(crate) startup_timeout: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    #[serde(default = "default_session")]
    pub(crate) session: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "action_type", rename_all = "snake_case")]
pub(crate) enum Action {
    Bash(Bash),
    BashInterrupt(Interrupt),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Bash {
    pub(crate) command: String,
    #[serde(default = "default_session")]
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) timeout: Option<f64>,
    #[serde(default)]
    pub(crate) is_interactive_command: bool,
    #[serde(default)]
    pub(crate) is_interactive_quit: bool,
    #[serde(default)]
    pub(crate) check: Check,
    #[serde(default)]
    pub(crate) error_msg: String,
    #[serde(default)]
    pub(crate) expect: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Interrupt {
    #[serde(default = "default_session")]
    pub(crate) session: String,
    #[serde(default = "short")]
    pub(crate) timeout: f64,
    #[serde(default = "three")]
    pub(crate) n_retry: u32,
    #[serde(default)]
    pub(crate) expect: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Check {
    #[default]
    Raise,
    Silent,
    Ignore,
}

fn default_session() -> String {
    "default".to_owned()
}

fn one_second() -> f64 {
    1.0
}

fn short() -> f64 {
    0.2
}

fn three() -> u32 {
    3
}
