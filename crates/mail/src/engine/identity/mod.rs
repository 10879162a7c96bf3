//! Who there is: agents, their sessions and labels, their contacts, their public keys, and who is live.

pub(crate) mod agents;
pub(crate) mod assignments;
pub(crate) mod claim;
pub(crate) mod contacts;
pub(crate) mod idle_agents;
pub(crate) mod presence;
pub(crate) mod public_keys;
pub(crate) mod sessions;
