//! Answers by a command when no live session takes a message: the guards, and running the command.

pub(crate) mod guards;
pub(crate) mod run_command;
